//! Files that are there as a whole, or as they were before.

use std::{
    ffi::OsString,
    fs::{self, File, OpenOptions},
    io,
    path::{Path, PathBuf},
    process,
};

/// Writes a file beside the one that is wanted, and then renames the new file. Where the writing fails, the old file stays as it was.
/// What is no file, such as `/dev/stdout`, is written to; so is a file in a folder that takes no new one.
///
/// # Errors
/// When it cannot be written, as on a full disk.
pub fn write_whole(path: &Path, write: impl FnOnce(&mut File) -> io::Result<()>) -> io::Result<()> {
    let before = fs::metadata(path).ok();
    let in_place = || OpenOptions::new().write(true).truncate(true).open(path);
    if before.as_ref().is_some_and(|before| !before.is_file()) {
        return write(&mut in_place()?);
    }
    // What a link leads to takes the new content, and the link stays.
    let place = if before.is_some() { fs::canonicalize(path)? } else { path.to_owned() };
    let beside = beside(&place);
    // One of this name was left by a process that was killed, and had the same number.
    let mut file = match File::create(&beside) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied && before.is_some() => {
            return write(&mut in_place()?);
        }
        file => file?,
    };
    let written = write(&mut file)
        .and_then(|()| before.map_or(Ok(()), |before| file.set_permissions(before.permissions())))
        .and_then(|()| fs::rename(&beside, &place));
    if written.is_err() {
        // It may never have been there.
        let _ = fs::remove_file(&beside);
    }
    written
}

fn beside(path: &Path) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(format!(".new-{}", process::id()));
    name.into()
}

#[cfg(test)]
mod tests {
    use std::{io::Write as _, os::unix::fs::symlink};

    use tempfile::TempDir;

    use super::*;

    fn names(folder: &TempDir) -> Vec<String> {
        let all = fs::read_dir(folder.path()).expect("a folder");
        let mut names: Vec<_> =
            all.map(|entry| entry.expect("an entry").file_name().into_string().expect("UTF-8")).collect();
        names.sort();
        names
    }

    #[test]
    fn what_cannot_be_written_leaves_what_was_there() {
        let folder = TempDir::new().expect("a folder");
        let path = folder.path().join("result.json");
        let fails = |file: &mut File| {
            file.write_all(b"half")?;
            Err(io::ErrorKind::StorageFull.into())
        };
        assert!(write_whole(&path, fails).is_err());
        assert_eq!(names(&folder), Vec::<String>::new());
        write_whole(&path, |file| file.write_all(b"first")).expect("there is room");
        assert!(write_whole(&path, fails).is_err());
        assert_eq!(fs::read(&path).expect("it is there"), b"first");
        write_whole(&path, |file| file.write_all(b"second")).expect("there is room");
        assert_eq!(
            (fs::read(&path).expect("it is there"), names(&folder)),
            (b"second".to_vec(), vec!["result.json".to_owned()])
        );
    }

    #[test]
    fn what_a_killed_process_of_the_same_number_left_is_not_in_the_way() {
        let folder = TempDir::new().expect("a folder");
        let path = folder.path().join("result.json");
        fs::write(beside(&path), "a longer text than the new one").expect("a file");
        write_whole(&path, |file| file.write_all(b"new")).expect("there is room");
        assert_eq!((fs::read(&path).expect("it is there"), names(&folder).len()), (b"new".to_vec(), 1));
    }

    #[test]
    fn a_link_and_what_is_no_file_stay_what_they_are() {
        let folder = TempDir::new().expect("a folder");
        let (path, link) = (folder.path().join("a"), folder.path().join("b"));
        fs::write(&path, "old").expect("a file");
        symlink(&path, &link).expect("a link");
        write_whole(&link, |file| file.write_all(b"new")).expect("there is room");
        assert!(link.is_symlink() && fs::read(&path).expect("it is there") == b"new");
        write_whole(Path::new("/dev/null"), |file| file.write_all(b"gone")).expect("it takes everything");
        assert!(write_whole(Path::new("/dev/full"), |file| file.write_all(b"x")).is_err());
        assert!(Path::new("/dev/full").exists());
    }
}
