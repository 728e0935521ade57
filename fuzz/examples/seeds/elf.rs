//! Small programs that are linked with PVM's library one way or another.

use towpath_pvm::linkage::{Linkage, of};

/// Tags of dynamic entries, and types of sections: see `man 5 elf`.
const NEEDED: u64 = 1;
const RPATH: u64 = 15;
const SYMBOLS: u64 = 2;
const STRINGS: u64 = 3;
const DYNAMIC: u64 = 6;

/// Names, and where they begin; 40 bytes, so that what follows stands at a multiple of 8.
const NAMES: &[u8; 40] = b"\0libpvm3.so.3\0pvm_mytid\0/usr/lib\0\0\0\0\0\0\0\0";
const LIBRARY: u64 = 1;
const FUNCTION: u64 = 14;
const FOLDER: u64 = 24;

/// ELF files of 64 bits: one that asks for PVM's library, the same cut short and in the other
/// order of bytes, one that also says where it is, one that has it linked in.
pub(crate) fn programs() -> Vec<(&'static str, Vec<u8>)> {
    let (shared, big) = (Numbers { little: true }, Numbers { little: false });
    let asks = shared.file(DYNAMIC, &shared.dynamic(&[(NEEDED, LIBRARY)]));
    let fixed = shared.dynamic(&[(NEEDED, LIBRARY), (RPATH, FOLDER)]);
    let seeds = [
        ("cut", asks[..asks.len() / 2].to_vec(), Linkage::None),
        ("shared", asks, Linkage::Shared),
        (
            "shared_big_endian",
            big.file(DYNAMIC, &big.dynamic(&[(NEEDED, LIBRARY)])),
            Linkage::Shared,
        ),
        ("fixed", shared.file(DYNAMIC, &fixed), Linkage::Fixed),
        ("static", shared.file(SYMBOLS, &shared.symbols()), Linkage::Static),
    ];
    let checked = |(name, file, linkage): (_, Vec<u8>, _)| {
        assert_eq!(of(&file), linkage, "{name}");
        (name, file)
    };
    seeds.map(checked).to_vec()
}

/// How a file has its numbers.
struct Numbers {
    little: bool,
}

impl Numbers {
    /// Numbers with their lengths in bytes.
    fn bytes(&self, fields: &[(u64, usize)]) -> Vec<u8> {
        let number = |&(value, len): &(u64, usize)| match self.little {
            true => value.to_le_bytes()[..len].to_vec(),
            false => value.to_be_bytes()[8 - len..].to_vec(),
        };
        fields.iter().flat_map(number).collect()
    }

    /// Dynamic entries, and the one that ends them.
    fn dynamic(&self, entries: &[(u64, u64)]) -> Vec<u8> {
        let end = [(0, 0)];
        let all = entries.iter().chain(&end);
        all.flat_map(|&(tag, value)| self.bytes(&[(tag, 8), (value, 8)])).collect()
    }

    /// No symbol, then the function, in section 1.
    fn symbols(&self) -> Vec<u8> {
        let function = [(FUNCTION, 4), (0x12, 1), (0, 1), (1, 2), (0, 8), (0, 8)];
        [vec![0; 24], self.bytes(&function)].concat()
    }

    /// A header of 64 bytes, names, a table, headers of sections: none, the table's, the names'.
    fn file(&self, kind: u64, table: &[u8]) -> Vec<u8> {
        let names = NAMES.len() as u64;
        let (table_at, table_len) = (64 + names, table.len() as u64);
        let order = if self.little { 1 } else { 2 };
        let mut file = [b"\x7fELF\x02", &[order, 1][..], &[0; 9]].concat();
        let executable = [(2, 2), (62, 2), (1, 4), (0, 8), (0, 8), (table_at + table_len, 8)];
        file.extend(self.bytes(&executable));
        file.extend(self.bytes(&[(0, 4), (64, 2), (0, 2), (0, 2), (64, 2), (3, 2), (2, 2)]));
        file.extend(NAMES);
        file.extend(table);
        file.extend([0; 64]);
        for (kind, at, len, linked) in [(kind, table_at, table_len, 2), (STRINGS, 64, names, 0)] {
            file.extend(self.bytes(&[(0, 4), (kind, 4), (0, 8), (0, 8), (at, 8), (len, 8)]));
            file.extend(self.bytes(&[(linked, 4), (0, 4), (8, 8), (0, 8)]));
        }
        file
    }
}
