//! Options that a socket takes while the loader changes them (`bpf/core/options.h`).

#![allow(unsafe_code)] // calls with arrays of the size that they read and write

const WORDS: usize = 2 + 64;

/// Generation, the options that are set, the options, and their sum.
type Stored = [u64; WORDS + 1];

unsafe extern "C" {
    fn bp_user_take_options(copy: *mut u64, words: *const u64) -> u64;
    fn bp_user_sum_of(words: *const u64) -> u64;
}

/// Returns the copy if it is whole.
fn take(stored: &Stored) -> Option<Stored> {
    let mut copy = [0; WORDS + 1];
    let is_whole = unsafe { bp_user_take_options(copy.as_mut_ptr(), stored.as_ptr()) };
    (is_whole == 1).then_some(copy)
}

fn stored(generation: u64, word: impl Fn(u64) -> u64) -> Stored {
    let mut words = [0; WORDS + 1];
    (words[0], words[1]) = (generation, 1);
    for (n, each) in (0..).zip(&mut words[2..WORDS]) {
        *each = word(n);
    }
    words[WORDS] = unsafe { bp_user_sum_of(words.as_ptr()) };
    words
}

#[test]
fn whole_options_are_taken_as_they_are() {
    for each in [stored(0, |_| 0), stored(7, |n| n * n), stored(u64::MAX, |_| u64::MAX)] {
        assert_eq!(take(&each), Some(each));
    }
}

#[test]
fn half_of_a_change_is_refused_wherever_it_is_cut() {
    // A map is written from its begin; a reader that is overtaken has the end of the new words.
    let (old, new) = (stored(7, |n| n), stored(8, |n| 3 * n + 1));
    for cut in 1..=WORDS {
        let mut torn = old;
        torn[..cut].copy_from_slice(&new[..cut]);
        assert_eq!(take(&torn), None, "the first {cut} words are new");
        let mut torn = new;
        torn[..cut].copy_from_slice(&old[..cut]);
        assert_eq!(take(&torn), None, "the first {cut} words are old");
    }
}

#[test]
fn a_change_of_one_word_is_refused() {
    let whole = stored(7, |n| 1000 + n);
    for n in 0..=WORDS {
        for other in [0, whole[n] ^ 1, whole[n] ^ 1 << 63, u64::MAX] {
            let mut words = whole;
            words[n] = other;
            assert_eq!(take(&words), None, "word {n} is {other}");
        }
    }
}

#[test]
fn the_generation_alone_makes_no_new_options() {
    let mut words = stored(7, |n| n);
    words[0] = 8;
    assert_eq!(take(&words), None);
}
