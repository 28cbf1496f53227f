//! Whole numbers in decimal, as regular expressions.

/// A pattern, in the syntax that RE2 and most others have, of exactly the decimal numbers from `least` to `greatest`, with a sign or
/// without one.
pub(crate) fn pattern(least: i128, greatest: i128) -> String {
    let positive = format!("[+]?0*(?:{})", up_to(greatest.unsigned_abs()));
    if least < 0 { format!("{positive}|-0*(?:{})", up_to(least.unsigned_abs())) } else { positive }
}

/// The numbers up to `greatest` without leading zeros.
fn up_to(greatest: u128) -> String {
    let digits = greatest.to_string();
    let mut patterns = vec![format!("[0-9]{{1,{}}}", digits.len() - 1), digits.clone()];
    // As long as the greatest and lower from one digit on.
    for (place, digit) in digits.bytes().enumerate() {
        let lowest = if place == 0 { b'1' } else { b'0' };
        if digit > lowest {
            let (lowest, below, rest) = (char::from(lowest), char::from(digit - 1), digits.len() - place - 1);
            patterns.push(format!("{}[{lowest}-{below}][0-9]{{{rest}}}", &digits[..place]));
        }
    }
    patterns.join("|")
}

#[cfg(test)]
mod tests {
    use super::pattern;

    #[test]
    fn all_numbers_of_a_type_are_in_its_pattern() {
        assert_eq!(
            pattern(-128, 127),
            "[+]?0*(?:[0-9]{1,2}|127|1[0-1][0-9]{1}|12[0-6][0-9]{0})|-0*(?:[0-9]{1,2}|128|1[0-1][0-9]{1}|12[0-7][0-9]{0})"
        );
        assert_eq!(pattern(0, 255), "[+]?0*(?:[0-9]{1,2}|255|[1-1][0-9]{2}|2[0-4][0-9]{1}|25[0-4][0-9]{0})");
    }
}
