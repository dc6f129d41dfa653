"""The compiler checks itself: the first run of a program is compared with the evaluator's."""
