//! The reference server that a failure was found in, with simpler faults.

use reference::{Planted, When};

/// What stands before a fault in the options of the server.
const FLAG: &str = "--fault";

/// The chance at which a fault is committed that happens once, and later than at the first one: a failure with fewer chances
/// does not meet it.
#[must_use]
pub fn late_fault(options: &[String]) -> Option<Planted> {
    let words = words(options);
    faults(&words)
        .filter_map(|place| read(&words, place))
        .find(|fault| matches!(fault.when, When::Once(chance) if chance > 1))
}

/// The options with one fault left out of several, or with one that happens once happening at an earlier chance: the first, the
/// second, the fourth, and so on. What is simplest comes first.
pub(super) fn simpler(options: &[String]) -> Vec<Vec<String>> {
    let words = words(options);
    let places: Vec<_> = faults(&words).collect();
    let mut found = Vec::new();
    if places.len() > 1 {
        found.extend(places.iter().map(|&place| [&words[..place - 1], &words[place + 1..]].concat()));
    }
    for &place in &places {
        let Some(Planted { fault, when: When::Once(chance) }) = read(&words, place) else { continue };
        let earlier = std::iter::successors(Some(1), |chance: &u64| chance.checked_mul(2));
        found.extend(earlier.take_while(|earlier| *earlier < chance).map(|earlier| {
            let mut words = words.clone();
            words[place] = Planted::once(fault, earlier).to_string();
            words
        }));
    }
    found.iter().map(|words| options_of(words)).collect()
}

/// Options may stand by themselves, with their value or all in one text.
fn words(options: &[String]) -> Vec<String> {
    let words = options.iter().flat_map(|option| option.split_whitespace());
    words
        .flat_map(|word| match word.split_once('=') {
            Some((FLAG, fault)) => vec![FLAG.to_owned(), fault.to_owned()],
            _ => vec![word.to_owned()],
        })
        .collect()
}

/// Where the faults are among the words.
fn faults(words: &[String]) -> impl Iterator<Item = usize> {
    (1..words.len()).filter(|&place| words[place - 1] == FLAG)
}

fn read(words: &[String], place: usize) -> Option<Planted> {
    words[place].parse().ok()
}

/// Each option with its value, as a failure file has them.
fn options_of(words: &[String]) -> Vec<String> {
    let mut options: Vec<String> = Vec::new();
    for word in words {
        match options.last_mut() {
            Some(option) if !word.starts_with("--") => *option = format!("{option} {word}"),
            _ => options.push(word.clone()),
        }
    }
    options
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(options: &[&str]) -> Vec<String> {
        options.iter().map(|option| (*option).to_owned()).collect()
    }

    #[test]
    fn a_fault_that_happens_once_may_happen_earlier_and_one_of_several_may_go() {
        let one = texts(&["--idle-limit 1s", "--fault keep-state:once@5", "--fault-seed 7"]);
        let expected = [1, 2, 4]
            .map(|chance| texts(&["--idle-limit 1s", &format!("--fault keep-state:once@{chance}"), "--fault-seed 7"]));
        assert_eq!(simpler(&one), expected);
        assert_eq!(late_fault(&one).map(|fault| fault.to_string()), Some("keep-state:once@5".to_owned()));

        let in_one_text = texts(&["--fault=crash --fault skip-step:once@2"]);
        let expected = [
            texts(&["--fault skip-step:once@2"]),
            texts(&["--fault crash"]),
            texts(&["--fault crash", "--fault skip-step:once@1"]),
        ];
        assert_eq!(simpler(&in_one_text), expected);
    }

    #[test]
    fn other_faults_are_as_simple_as_they_can_be() {
        for options in [&[][..], &["--fault"], &["--fault crash"], &["--fault crash:once@1"], &["--fault crash:0.5"]] {
            let options = texts(options);
            assert_eq!((simpler(&options), late_fault(&options)), (Vec::new(), None), "{options:?}");
        }
    }
}
