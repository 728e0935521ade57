//! Hosts, interfaces, links and switches, and the routes over them.
