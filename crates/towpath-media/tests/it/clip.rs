//! A clip made by ffmpeg in a folder of its own, and what ffprobe says of it.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tempfile::TempDir;
use towpath_media::read::{Format, FrameLists, Reader};
use towpath_skip::skip;

/// A clip; its folder goes with it.
pub(crate) struct Clip {
    pub(crate) name: String,
    path: PathBuf,
    _folder: Option<TempDir>,
}

/// A packet as ffprobe prints it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Probed {
    pub(crate) size: u64,
    pub(crate) key: bool,
    pub(crate) pts: Option<i64>,
    pub(crate) dts: Option<i64>,
}

impl Clip {
    /// Makes a clip of these lavfi sources with these options. `None` without ffmpeg.
    pub(crate) fn make(name: &str, sources: &[&str], options: &str) -> Option<Self> {
        let sources: Vec<_> =
            sources.iter().flat_map(|source| ["-f", "lavfi", "-i", source]).collect();
        has_ffmpeg().then(|| Self::run(name, &sources, options))
    }

    /// Makes a clip of a file with these options. `None` without ffmpeg.
    pub(crate) fn convert(name: &str, source: &Path, options: &str) -> Option<Self> {
        let source = source.to_str().expect("a readable path");
        has_ffmpeg().then(|| Self::run(name, &["-i", source], options))
    }

    /// A clip that is there. `None` without ffprobe.
    pub(crate) fn open(path: &Path) -> Option<Self> {
        let name = path.display().to_string();
        has_ffmpeg().then(|| Self { name, path: path.to_path_buf(), _folder: None })
    }

    fn run(name: &str, sources: &[&str], options: &str) -> Self {
        let folder = TempDir::new().expect("a folder for the clip");
        let path = folder.path().join(name);
        let mut ffmpeg = Command::new("ffmpeg");
        ffmpeg.args(["-hide_banner", "-v", "error", "-nostdin", "-y"]).args(sources);
        ffmpeg.args(["-bitexact"]).args(options.split_whitespace()).arg(&path);
        let status = ffmpeg.stdin(Stdio::null()).status().expect("ffmpeg starts");
        assert!(status.success(), "ffmpeg failed to make {name}");
        Self { name: name.to_owned(), path, _folder: Some(folder) }
    }

    /// Whether ffmpeg has this encoder; says so if not.
    pub(crate) fn has_encoder(encoder: &str) -> bool {
        if !has_ffmpeg() {
            return false;
        }
        let all = Command::new("ffmpeg").args(["-hide_banner", "-encoders"]).output();
        let all = all.expect("ffmpeg starts").stdout;
        let has = String::from_utf8_lossy(&all).split_whitespace().any(|word| word == encoder);
        if !has {
            skip(&format!("this ffmpeg has no {encoder}"));
        }
        has
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        std::fs::read(&self.path).expect("ffmpeg wrote it")
    }

    /// Reads it with our reader, in pieces of an odd size.
    pub(crate) fn read(&self) -> (Format, FrameLists) {
        let mut reader = Reader::new();
        let mut lists = FrameLists::new();
        for piece in self.bytes().chunks(10_007) {
            reader.push(piece, &mut lists).expect("its format is known");
        }
        let format = reader.finish(&mut lists).expect("its format is known");
        (format, lists)
    }

    /// Packets of the first video stream by ffprobe.
    pub(crate) fn probe(&self) -> Vec<Probed> {
        self.probe_of("v:0")
    }

    /// Packets of one stream.
    pub(crate) fn probe_of(&self, stream: &str) -> Vec<Probed> {
        let entries = "packet=pts,dts,size,flags";
        let rows = ffprobe(&self.path, &["-select_streams", stream, "-show_entries", entries]);
        rows.lines().filter(|row| !row.is_empty()).map(probed).collect()
    }
}

fn probed(row: &str) -> Probed {
    let fields: Vec<&str> = row.split(',').collect();
    Probed {
        pts: fields[0].parse().ok(),
        dts: fields[1].parse().ok(),
        size: fields[2].parse().expect("a size"),
        key: fields[3].starts_with('K'),
    }
}

fn ffprobe(path: &Path, arguments: &[&str]) -> String {
    let mut ffprobe = Command::new("ffprobe");
    ffprobe.args(["-v", "error", "-of", "csv=p=0"]).args(arguments).arg(path);
    let output = ffprobe.output().expect("ffprobe starts");
    assert!(output.status.success(), "ffprobe failed on {}", path.display());
    String::from_utf8(output.stdout).expect("ffprobe prints text")
}

fn has_ffmpeg() -> bool {
    let answers = |program| Command::new(program).arg("-version").output().is_ok();
    let has = answers("ffmpeg") && answers("ffprobe");
    if !has {
        skip("ffmpeg and ffprobe are not installed: nothing was compared with them");
    }
    has
}
