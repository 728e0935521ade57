//! Packet schedulers of an egress, a file each.
