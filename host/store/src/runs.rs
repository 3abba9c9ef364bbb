//! Whether the files of sorted runs are as they were written. lsm-tree has a checksum of each, and of the manifest that lists
//! them, and looks only at those of the blocks that it reads: a manifest that is damaged could make it take runs for old ones,
//! which it removes. So all of them are checked before it sees them.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Read};
use std::path::Path;

use sfa::Reader;
use xxhash_rust::xxh3::Xxh3Default;

use super::StoreError;
use super::file::failed;

/// The file that says which manifest counts.
const CURRENT: &str = "current";
/// The folder of the runs' files, and what the section of a manifest that lists them is called.
const TABLES: &str = "tables";
/// The only kind of checksum.
const XXH3: u8 = 0;
/// Bytes that are read at once.
const BUFFER: usize = 256 << 10;

/// Checks each file.
///
/// # Errors
/// [`StoreError::Corrupt`] with the file that is damaged or missing.
pub(crate) fn check(folder: &Path) -> Result<(), StoreError> {
    let current = folder.join(CURRENT);
    let bytes = fs::read(&current).map_err(|error| failed(&current, &error))?;
    let Some((number, sum)) = listed_in(&bytes) else {
        return Err(StoreError::corrupt(
            &current,
            "it does not say which manifest counts",
        ));
    };
    let manifest = folder.join(format!("v{number}"));
    check_file(&manifest, sum)?;
    let runs = runs_in(&manifest).map_err(|error| failed(&manifest, &error))?;
    let tables = folder.join(TABLES);
    runs.iter()
        .try_for_each(|(number, sum)| check_file(&tables.join(number.to_string()), *sum))
}

/// `manifest's number u64 | its checksum u128 | kind u8`.
fn listed_in(bytes: &[u8]) -> Option<(u64, u128)> {
    let (number, rest) = bytes.split_first_chunk()?;
    let (sum, kind) = rest.split_first_chunk()?;
    (kind == [XXH3]).then(|| (u64::from_le_bytes(*number), u128::from_le_bytes(*sum)))
}

fn check_file(path: &Path, sum: u128) -> Result<(), StoreError> {
    match sum_of(path) {
        Ok(found) if found == sum => Ok(()),
        Ok(_) => Err(StoreError::corrupt(path, "its checksum is another one")),
        Err(error) => Err(failed(path, &error)),
    }
}

fn sum_of(path: &Path) -> io::Result<u128> {
    let mut file = File::open(path)?;
    let mut hasher = Xxh3Default::new();
    let mut buffer = vec![0; BUFFER];
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(hasher.digest128()),
            len => hasher.update(&buffer[..len]),
        }
    }
}

fn array<const N: usize>(reader: &mut impl Read) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    reader.read_exact(&mut bytes)?;
    Ok(bytes)
}

/// The number of a file, which is its name, and its checksum
type Listed = (u64, u128);

fn invalid(why: &str) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, why)
}

fn section(manifest: &Path, name: &str) -> io::Result<impl Read> {
    let archive = Reader::new(manifest).map_err(|_| invalid("it is no manifest"))?;
    let section = archive.toc().section(name.as_bytes());
    section
        .ok_or_else(|| invalid("it lists no files"))?
        .buf_reader(manifest)
}

/// `number u64 | kind u8 | checksum u128`.
fn listed(reader: &mut impl Read) -> io::Result<Listed> {
    let number = u64::from_le_bytes(array(reader)?);
    if array(reader)? != [XXH3] {
        return Err(invalid("a checksum is of another kind"));
    }
    Ok((number, u128::from_le_bytes(array(reader)?)))
}

/// The files of all runs: `levels u8`, each `runs u8`, each `files u32`, each as [`listed`] with `sequence number u64` behind it.
fn runs_in(manifest: &Path) -> io::Result<Vec<Listed>> {
    let mut reader = section(manifest, TABLES)?;
    let mut files = Vec::new();
    let [levels] = array(&mut reader)?;
    for _ in 0..levels {
        let [runs] = array(&mut reader)?;
        for _ in 0..runs {
            for _ in 0..u32::from_le_bytes(array(&mut reader)?) {
                files.push(listed(&mut reader)?);
                array::<8>(&mut reader)?;
            }
        }
    }
    Ok(files)
}
