//! What a database does when it inserts: a directory of small files, written under a temporary name and published by one rename.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;

use anyhow::Result;

use super::noise::Noise;
use super::{Budget, Rate};

/// Files of a part, as of a table of some 13 columns.
pub(crate) const PART_FILES: u64 = 60;

/// More than half of a part's files are not larger than 512 bytes.
const MANY_BYTES: usize = 200;
const SMALLEST: f64 = 100.0;
const LARGEST: f64 = 60_000.0;

/// Writes and publishes parts; the rate counts parts.
pub(crate) fn publish_parts(dir: &Path, budget: Budget) -> Result<Rate> {
    let mut noise = Noise::new(13);
    let mut data = vec![0; LARGEST as usize + 8];
    noise.fill(&mut data);
    budget.spend(|part| {
        let temporary = dir.join(format!("tmp_insert_{part}"));
        fs::create_dir(&temporary)?;
        for file in 0..PART_FILES {
            data[..8].copy_from_slice(&noise.next().to_le_bytes());
            File::create(temporary.join(format!("column{file}.bin")))?.write_all(&data[..size(file)])?;
        }
        Ok(fs::rename(&temporary, dir.join(format!("all_{part}_{part}_0")))?)
    })
}

/// Many small files in directories of [`PART_FILES`], for what they cost in the metadata store; the rate counts files.
pub(crate) fn many_files(dir: &Path, budget: Budget) -> Result<Rate> {
    let mut noise = Noise::new(17);
    let mut data = [0; MANY_BYTES];
    let mut parent = dir.to_path_buf();
    budget.spend(|number| {
        if number % PART_FILES == 0 {
            parent = dir.join(format!("dir-{}", number / PART_FILES));
            fs::create_dir(&parent)?;
        }
        noise.fill(&mut data);
        // Names as long as those of a part's files.
        Ok(File::create(parent.join(format!("column_name_{number:08}.bin")))?.write_all(&data)?)
    })
}

/// Sizes are spread evenly over the orders of magnitude.
fn size(file: u64) -> usize {
    let share = file as f64 / (PART_FILES - 1) as f64;
    (SMALLEST * (LARGEST / SMALLEST).powf(share)) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_go_from_a_hundred_bytes_to_sixty_thousand() {
        assert_eq!(size(0), 100);
        assert!((59_990..=60_000).contains(&size(PART_FILES - 1)));
        let small = (0..PART_FILES).filter(|file| size(*file) <= 4096).count();
        assert_eq!(small, 35);
    }
}
