//! Formulas of KEDA's scaling modifiers: as much of their language as it takes to recognise the SLO law, however it is laid out.

use std::iter::Peekable;
use std::str::Chars;

/// A band of saturation with credit for replicas that are starting, and the triggers that it reads.
#[derive(Clone, Debug, PartialEq)]
pub struct BandFormula {
    /// The trigger of the saturation.
    pub saturation: String,
    /// The trigger of the replicas asked for.
    pub replicas: String,
    /// The trigger of the ready ones.
    pub ready: String,
    /// The fleet grows above this saturation.
    pub up_at: f64,
    /// And shrinks below this one.
    pub down_at: f64,
}

/// The law, with names in the places of the triggers and of the marks.
const LAW: &str = "S > UP ? N + ceil(N * (S * (R > 0 && R < N ? R / N : 1) / UP - 1)) : (S < DOWN ? N - floor(N * (1 - S / DOWN)) : N)";

#[derive(Clone, Debug, PartialEq)]
enum Expression {
    Number(f64),
    Name(String),
    Call(String, Vec<Expression>),
    Binary(&'static str, Box<Expression>, Box<Expression>),
    Choice(Box<Expression>, Box<Expression>, Box<Expression>),
}

/// The SLO law in a formula, if it is nothing else.
pub fn band(formula: &str) -> Option<BandFormula> {
    let (law, given) = (parse(LAW)?, parse(formula)?);
    let mut found = Found::default();
    if !matches(&law, &given, &mut found) {
        return None;
    }
    let Found { names: [saturation, replicas, ready], marks: [up_at, down_at] } = found;
    let band = BandFormula { saturation: saturation?, replicas: replicas?, ready: ready?, up_at: up_at?, down_at: down_at? };
    let distinct = band.saturation != band.replicas && band.replicas != band.ready && band.saturation != band.ready;
    distinct.then_some(band)
}

/// What stands in the places of the law.
#[derive(Clone, Debug, Default)]
struct Found {
    names: [Option<String>; 3],
    marks: [Option<f64>; 2],
}

/// Puts `value` into a place; what is there already must be the same.
fn place<T: PartialEq + Clone>(slot: &mut Option<T>, value: &T) -> bool {
    slot.get_or_insert_with(|| value.clone()) == value
}

fn matches(law: &Expression, given: &Expression, found: &mut Found) -> bool {
    use Expression::{Binary, Call, Choice, Name, Number};
    match (law, given) {
        (Name(place_name), given) => match (place_name.as_str(), given) {
            ("S", Name(name)) => place(&mut found.names[0], name),
            ("N", Name(name)) => place(&mut found.names[1], name),
            ("R", Name(name)) => place(&mut found.names[2], name),
            ("UP", Number(number)) => place(&mut found.marks[0], number),
            ("DOWN", Number(number)) => place(&mut found.marks[1], number),
            _ => false,
        },
        (Number(a), Number(b)) => a == b,
        (Call(name, arguments), Call(other, others)) => {
            name == other && arguments.len() == others.len() && arguments.iter().zip(others).all(|(a, b)| matches(a, b, found))
        }
        (Choice(a, b, c), Choice(x, y, z)) => matches(a, x, found) && matches(b, y, found) && matches(c, z, found),
        (Binary(operator, a, b), Binary(other, x, y)) if operator == other => {
            let before = found.clone();
            if matches(a, x, found) && matches(b, y, found) {
                return true;
            }
            *found = before;
            // These do the same in either order.
            matches!(*operator, "+" | "*" | "&&") && matches(a, y, found) && matches(b, x, found)
        }
        _ => false,
    }
}

fn parse(text: &str) -> Option<Expression> {
    let tokens = tokens(text)?;
    let mut parser = Parser { tokens: &tokens };
    let expression = parser.choice(DEEPEST)?;
    parser.tokens.is_empty().then_some(expression)
}

/// How deep parentheses may be nested; a formula that is deeper is not the law.
const DEEPEST: usize = 64;

/// From what binds least to what binds most.
const OPERATORS: [&[&str]; 6] = [&["||"], &["&&"], &["==", "!="], &[">=", "<=", ">", "<"], &["+", "-"], &["*", "/"]];

struct Parser<'a> {
    tokens: &'a [String],
}

impl Parser<'_> {
    fn take(&mut self, token: &str) -> Option<()> {
        let (first, rest) = self.tokens.split_first()?;
        (first == token).then(|| self.tokens = rest)
    }

    fn choice(&mut self, depth: usize) -> Option<Expression> {
        let depth = depth.checked_sub(1)?;
        let condition = self.binary(0, depth)?;
        if self.take("?").is_none() {
            return Some(condition);
        }
        let yes = self.choice(depth)?;
        self.take(":")?;
        Some(Expression::Choice(Box::new(condition), Box::new(yes), Box::new(self.choice(depth)?)))
    }

    fn binary(&mut self, level: usize, depth: usize) -> Option<Expression> {
        let Some(operators) = OPERATORS.get(level) else { return self.primary(depth) };
        let mut left = self.binary(level + 1, depth)?;
        while let Some(operator) = operators.iter().find(|operator| self.take(operator).is_some()) {
            left = Expression::Binary(operator, Box::new(left), Box::new(self.binary(level + 1, depth)?));
        }
        Some(left)
    }

    fn primary(&mut self, depth: usize) -> Option<Expression> {
        if self.take("(").is_some() {
            let inner = self.choice(depth)?;
            return self.take(")").map(|()| inner);
        }
        let (first, rest) = self.tokens.split_first()?;
        self.tokens = rest;
        if first.starts_with(|c: char| c.is_ascii_digit() || c == '.') {
            return first.parse().ok().map(Expression::Number);
        }
        if !first.starts_with(|c: char| c.is_alphabetic() || c == '_') {
            return None;
        }
        if self.take("(").is_none() {
            return Some(Expression::Name(first.clone()));
        }
        let mut arguments = vec![self.choice(depth)?];
        while self.take(",").is_some() {
            arguments.push(self.choice(depth)?);
        }
        self.take(")").map(|()| Expression::Call(first.clone(), arguments))
    }
}

fn tokens(text: &str) -> Option<Vec<String>> {
    let (mut tokens, mut rest) = (vec![], text.chars().peekable());
    while let Some(&c) = rest.peek() {
        if c.is_whitespace() {
            rest.next();
        } else if c.is_ascii_digit() || c == '.' {
            tokens.push(run(&mut rest, |c| c.is_ascii_digit() || c == '.'));
        } else if c.is_alphabetic() || c == '_' {
            tokens.push(run(&mut rest, |c| c.is_alphanumeric() || c == '_'));
        } else {
            rest.next();
            let two = rest.peek().map(|next| format!("{c}{next}"));
            match two.filter(|two| OPERATORS.concat().contains(&two.as_str())) {
                Some(two) => {
                    rest.next();
                    tokens.push(two);
                }
                None if "?:(),+-*/<>".contains(c) => tokens.push(c.to_string()),
                None => return None,
            }
        }
    }
    Some(tokens)
}

fn run(rest: &mut Peekable<Chars<'_>>, belongs: impl Fn(char) -> bool) -> String {
    std::iter::from_fn(|| rest.next_if(|c| belongs(*c))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn law(s: &str, n: &str, r: &str, up: &str, down: &str) -> String {
        format!(
            "{s} > {up} ? {n} + ceil({n} * ({s} * ({r} > 0 && {r} < {n} ? {r} / {n} : 1.0) / {up} - 1)) \
             : ({s} < {down} ? {n} - floor({n} * (1 - {s} / {down})) : {n})"
        )
    }

    #[test]
    fn the_law_is_recognised_with_any_names_and_marks() {
        let found = band(&law("saturation", "replicas", "readyReplicas", "0.55", "0.40")).unwrap();
        assert_eq!((found.saturation.as_str(), found.replicas.as_str(), found.ready.as_str()), ("saturation", "replicas", "readyReplicas"));
        assert_eq!((found.up_at, found.down_at), (0.55, 0.4));
        assert!(band(&law("a", "b", "c", "1", ".5").replace(' ', "\n")).is_some());
    }

    #[test]
    fn order_and_parentheses_that_change_nothing_do_not_matter() {
        let text = "(s > 0.6) ? (ceil((s * (r < n && 0.0 < 1 ? 1 : 1) / 0.6 - 1) * n) + n) : n";
        assert_eq!(band(text), None);
        let text = "s > 0.6 ? ceil(((r < n && r > 0 ? r / n : 1) * s / 0.6 - 1) * n) + n : s < 0.3 ? n - floor((1 - s / 0.3) * n) : n";
        assert_eq!(band(text).map(|band| (band.up_at, band.down_at)), Some((0.6, 0.3)));
    }

    #[test]
    fn what_is_not_quite_the_law_is_another_formula() {
        let law = law("s", "n", "r", "0.55", "0.40");
        for (part, other) in [
            ("ceil", "floor"),
            ("/ 0.55 - 1", "/ 0.60 - 1"),
            ("1 - s / 0.40", "1 - s / 0.45"),
            ("r / n : 1.0", "r / n : 0.5"),
            (": n)", ": n + 1)"),
            ("r > 0 && r < n", "r > 0 || r < n"),
            ("s > 0.55", "s >= 0.55"),
            ("s < 0.40", "n < 0.40"),
        ] {
            let changed = law.replace(part, other);
            assert_ne!(changed, law);
            assert_eq!(band(&changed), None, "{part} as {other}");
        }
        for text in ["", "s", "max(a, b)", "s > 0.55 ? n", "a ?? b", "((", &"(".repeat(10_000), "1.2.3", "s > \"x\" ? 1 : 2"] {
            assert_eq!(band(text), None, "{}", text.chars().take(20).collect::<String>());
        }
    }
}
