"""The experiments of Bengs, Saha and Huellermeier (2022): reproduced, judged, and told on a page."""
