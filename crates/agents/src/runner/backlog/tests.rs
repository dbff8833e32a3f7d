//! The backlog against a list of bytes that is never short of room.

use std::path::Path;

use tempfile::TempDir;

use super::*;

const BOUNDS: BacklogBounds = BacklogBounds {
    memory: 16,
    file: 64,
};

fn backlog(folder: &Path) -> OutputBacklog {
    OutputBacklog::new(folder.join("spill"), BOUNDS)
}

fn rest(backlog: &OutputBacklog, mut offset: u64, piece: usize) -> Vec<u8> {
    let mut all = Vec::new();
    loop {
        let read = backlog.read_from(offset, piece).unwrap();
        if read.is_empty() {
            return all;
        }
        offset += read.len() as u64;
        all.extend(read);
    }
}

/// A small generator, so that a failure can be seen again.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % bound as u64).unwrap()
    }

    fn bytes(&mut self, count: usize) -> Vec<u8> {
        let byte = |_| u8::try_from(self.below(256)).unwrap();
        (0..count).map(byte).collect()
    }
}

#[test]
fn whatever_is_done_nothing_is_lost_or_changed() {
    for seed in 1..=300 {
        let folder = TempDir::new().unwrap();
        let mut backlog = backlog(folder.path());
        let mut random = Random(seed);
        let mut said: Vec<u8> = Vec::new();
        let mut released = 0;
        for _ in 0..200 {
            match random.below(3) {
                0 => {
                    let over = random.below(8) == 0;
                    let room = usize::try_from(backlog.room(70)).unwrap();
                    let size = random.below(40).min(if over { 40 } else { room });
                    let piece = random.bytes(size);
                    backlog.append(&piece);
                    said.extend(piece);
                }
                1 => {
                    let left = said.len() - released;
                    released += random.below(left + 1);
                    backlog.release(released as u64);
                }
                _ => {
                    let left = said.len() - released;
                    let offset = released + random.below(left + 1);
                    let piece = 1 + random.below(20);
                    assert_eq!(rest(&backlog, offset as u64, piece), said[offset..]);
                }
            }
            let numbers = (backlog.from(), backlog.end());
            assert_eq!(numbers, (released as u64, said.len() as u64), "seed {seed}");
        }
        assert_eq!(rest(&backlog, released as u64, 7), said[released..]);
    }
}

#[test]
fn memory_comes_first_and_the_file_goes_when_it_is_empty() {
    let folder = TempDir::new().unwrap();
    let mut backlog = backlog(folder.path());
    let file = folder.path().join("spill");
    backlog.append(&[1; 16]);
    assert!(!file.exists());
    backlog.append(&[2; 10]);
    assert!(file.exists());
    backlog.release(20);
    assert!(!file.exists());
    assert_eq!(rest(&backlog, 20, 100), [2; 6]);
}

#[test]
fn the_file_stays_within_its_bound_however_long_it_is_in_use() {
    let folder = TempDir::new().unwrap();
    let mut backlog = backlog(folder.path());
    backlog.append(&[0; 60]);
    for number in 0..100_u8 {
        backlog.append(&[number; 10]);
        backlog.release(backlog.from() + 10);
        let file = fs::metadata(folder.path().join("spill")).unwrap();
        assert!(file.len() <= BOUNDS.file);
    }
    let expected: Vec<u8> = (94..100).flat_map(|number| [number; 10]).collect();
    assert_eq!(rest(&backlog, backlog.from(), 7), expected);
}

#[test]
fn without_a_file_there_is_no_room_and_no_loss() {
    let folder = TempDir::new().unwrap();
    let mut backlog = OutputBacklog::new(folder.path().join("absent/spill"), BOUNDS);
    assert_eq!(backlog.room(70), 70);
    backlog.append(&[1; 30]);
    assert_eq!((backlog.room(70), backlog.end()), (0, 30));
    assert_eq!(rest(&backlog, 0, 7), [1; 30]);
    backlog.release(14);
    assert!(backlog.read_from(13, 7).is_err());
    assert_eq!(rest(&backlog, 14, 7), [1; 16]);
    assert_eq!(backlog.room(70), 54);
}

#[test]
fn the_room_is_what_is_left_of_the_bound() {
    let folder = TempDir::new().unwrap();
    let mut backlog = backlog(folder.path());
    backlog.append(&[1; 30]);
    assert_eq!((backlog.room(70), backlog.room(20)), (40, 0));
    backlog.release(30);
    assert_eq!(backlog.room(70), 70);
}
