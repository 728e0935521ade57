//! What to do with a file that is not read.

use std::path::Path;

use anyhow::anyhow;
use towpath_media::read::ReadError;

use crate::files::shown;

/// An error with what would do, where that is known.
pub(crate) fn unreadable(path: &Path, e: &ReadError) -> anyhow::Error {
    let text = e.to_string();
    match hint(path, &text) {
        Some(hint) => anyhow!("{text}\nhint: {hint}"),
        None => anyhow!(text),
    }
}

/// By the text: whether a container is named in it.
fn hint(path: &Path, text: &str) -> Option<String> {
    if !text.starts_with("unsupported container") {
        return None;
    }
    let path = if path.as_os_str() == "-" { Path::new("FILE") } else { path };
    let word = |path: &Path| {
        let name = shown(path);
        if name.contains(' ') { format!("'{name}'") } else { name }
    };
    let (from, to) = (word(path), word(&path.with_extension("ts")));
    Some(format!(
        "ffmpeg -i {from} -c copy {to} (without `-c copy` where its codec cannot be in a \
         transport stream)"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_container_that_is_not_read_can_be_turned_into_one_that_is() {
        let text = "unsupported container MP4/MOV: not MPEG-TS";
        let said = hint(Path::new("a/film.mp4"), text).unwrap();
        assert!(said.starts_with("ffmpeg -i a/film.mp4 -c copy a/film.ts ("), "{said}");
        let said = hint(Path::new("-"), text).unwrap();
        assert!(said.starts_with("ffmpeg -i FILE -c copy FILE.ts ("), "{said}");
        assert_eq!(hint(Path::new("x"), "no known format in the first 9 bytes"), None);
    }
}
