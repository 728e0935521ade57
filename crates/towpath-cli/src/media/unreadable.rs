//! What to do with a file that is not read.

use std::path::Path;

use anyhow::anyhow;
use towpath_media::read::ReadError;

use crate::files::shown;

/// An error with what would do, where that is known; `text`: the file begins as text does.
pub(crate) fn unreadable(path: &Path, e: &ReadError, text: bool) -> anyhow::Error {
    match e {
        ReadError::UnknownFormat { .. } if text => {
            anyhow!("{e}\nhint: it is text: frame traces are for `towpath plan`")
        }
        ReadError::UnknownFormat { container: Some(_), .. } => {
            anyhow!("{e}\nhint: {}", conversion(path))
        }
        e => anyhow!(e.to_string()),
    }
}

fn conversion(path: &Path) -> String {
    let path = if path.as_os_str() == "-" { Path::new("FILE") } else { path };
    let word = |path: &Path| {
        let name = shown(path);
        if name.contains(' ') { format!("'{name}'") } else { name }
    };
    // A file may be called what it is not.
    let out = path.with_extension("ts");
    let out = if out == path { path.with_extension("mpeg.ts") } else { out };
    let (from, to) = (word(path), word(&out));
    format!(
        "ffmpeg -i {from} -c copy {to} (without `-c copy` where its codec cannot be in a \
         transport stream)"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_container_that_is_not_read_can_be_turned_into_one_that_is() {
        let said = conversion(Path::new("a/film.mp4"));
        assert!(said.starts_with("ffmpeg -i a/film.mp4 -c copy a/film.ts ("), "{said}");
        let said = conversion(Path::new("film.ts"));
        assert!(said.starts_with("ffmpeg -i film.ts -c copy film.mpeg.ts ("), "{said}");
        let said = conversion(Path::new("-"));
        assert!(said.starts_with("ffmpeg -i FILE -c copy FILE.ts ("), "{said}");
    }
}
