//! Worst-case bounds by min-plus calculus, in exact arithmetic.
