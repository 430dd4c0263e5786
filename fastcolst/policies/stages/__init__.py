"""Stages: what Sup-CoLSTIM and Sta'D share.

Auer's technique: estimates that are trusted must come from answers that did not depend on them. There are S =
floor(log2 T) stages, each with a Gram matrix M^(s) and an estimate theta^(s) of its own. All of them hold the
exploration; later a round teaches at most one. A round goes through the stages with the arms that survive, at first all
of them. With w_ij = c1 |x_i - x_j| in the norm of M^(s)^-1, in stage s

    if w_ij <= 1/sqrt(T) for all pairs of survivors, the round ends: its duel is between good arms and teaches nobody;
    if w_ij <= 2^-s for all of them, those stay whose utility x_i'theta^(s) is within 2^-s of the best, and the next
        stage follows;
    otherwise the round ends with a duel of two survivors for which w_ij > 2^-s, which teaches this stage.

The last stage is never left, since 2^-S < 1/sqrt(T). Line numbers are those of Algorithm 2 in Bengs, Saha, Huellermeier
(2022).
"""
