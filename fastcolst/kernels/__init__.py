"""Numerical kernels that know nothing of policies: linear algebra, choices among arms, pairs, Beta variates."""
