//! The files that come along.

/// The tables that come along: names and texts.
pub const TABLES: [(&str, &str); 8] = [
    ("table-2", include_str!("../../../../../scenarios/node/table-2.toml")),
    ("table-3", include_str!("../../../../../scenarios/node/table-3.toml")),
    ("table-4", include_str!("../../../../../scenarios/node/table-4.toml")),
    ("table-5", include_str!("../../../../../scenarios/node/table-5.toml")),
    ("table-6", include_str!("../../../../../scenarios/node/table-6.toml")),
    ("table-7", include_str!("../../../../../scenarios/node/table-7.toml")),
    ("table-8", include_str!("../../../../../scenarios/node/table-8.toml")),
    ("processors", include_str!("../../../../../scenarios/node/processors.toml")),
];
