//! Delivery schedules of stored video, a file each.
