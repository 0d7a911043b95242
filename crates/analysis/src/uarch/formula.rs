//! Formulas over counts, as processor makers publish them: `100 * max(a.b - c, 0) / d if smt_on else e`, `x > 5 & y > 20`.
//!
//! What for: parsing and evaluating. What not: what a name stands for.
//! Assumption: the text may be hostile: it is never deeper than [`DEEPEST`], and errors say where it is wrong.
//!
//! Grammar, weakest first: `A if C else B`; `|`; `&`; `< > <= >=`; `+ -`; `* /`; a number, a name, `max(...)`, `min(...)`,
//! `(...)`, `-x`. Truth is 1, anything but 0 is true. The grammar is Python's except for `&` and `|`, which bind as Python's
//! `and` and `or`.

/// Nesting that the makers' formulas stay far below.
const DEEPEST: usize = 60;
/// Largest text: it bounds how deep a chain of operators is. Three times the longest formula of the tables.
const LONGEST: usize = 3_000;

/// A parsed formula.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Formula {
    Number(f64),
    Name(String),
    Two(Operator, Box<(Formula, Formula)>),
    /// Value if true, condition, else.
    If(Box<(Formula, Formula, Formula)>),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Operator {
    Add,
    Subtract,
    Multiply,
    Divide,
    Least,
    Most,
    Below,
    AtMost,
    And,
    Or,
}

/// Parses a formula.
///
/// # Errors
/// Says what is wrong at which byte.
pub(crate) fn parse(text: &str) -> Result<Formula, String> {
    if text.len() > LONGEST {
        return Err(format!("{} bytes are no formula", text.len()));
    }
    let mut parser = Parser { text, at: 0, depth: 0 };
    let formula = parser.choice()?;
    match parser.peek() {
        None => Ok(formula),
        Some(found) => Err(format!("'{found}' at byte {} after the formula", parser.at)),
    }
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
    depth: usize,
}

impl<'a> Parser<'a> {
    fn peek(&mut self) -> Option<char> {
        let rest = self.text.get(self.at..).unwrap_or("");
        self.at += rest.len() - rest.trim_start().len();
        self.text.get(self.at..)?.chars().next()
    }

    /// Passes this sign if it comes next.
    fn take(&mut self, sign: &str) -> bool {
        self.peek();
        let found = self.text.get(self.at..).is_some_and(|rest| rest.starts_with(sign));
        self.at += if found { sign.len() } else { 0 };
        found
    }

    fn word(&mut self) -> &'a str {
        self.peek();
        let rest = self.text.get(self.at..).unwrap_or("");
        let part = |letter: char| letter.is_ascii_alphanumeric() || "_.:=".contains(letter);
        let word = &rest[..rest.find(|letter| !part(letter)).unwrap_or(rest.len())];
        self.at += word.len();
        word
    }

    /// Passes this word if it comes next.
    fn take_word(&mut self, wanted: &str) -> bool {
        let before = self.at;
        let found = self.word() == wanted;
        if !found {
            self.at = before;
        }
        found
    }

    fn choice(&mut self) -> Result<Formula, String> {
        self.depth += 1;
        if self.depth > DEEPEST {
            return Err(format!("nested deeper than {DEEPEST} at byte {}", self.at));
        }
        let mut value = self.operators(0)?;
        if self.take_word("if") {
            let condition = self.operators(0)?;
            if !self.take_word("else") {
                return Err(format!("no 'else' at byte {}", self.at));
            }
            value = Formula::If(Box::new((value, condition, self.choice()?)));
        }
        self.depth -= 1;
        Ok(value)
    }

    /// Operators of this strength and stronger ones, from the left.
    fn operators(&mut self, strength: usize) -> Result<Formula, String> {
        use Operator::{Add, And, AtMost, Below, Divide, Multiply, Or, Subtract};
        // A sign, its operator, and whether the operands change places.
        const SIGNS: [&[(&str, Operator, bool)]; 5] = [
            &[("|", Or, false)],
            &[("&", And, false)],
            &[(">=", AtMost, true), ("<=", AtMost, false), (">", Below, true), ("<", Below, false)],
            &[("+", Add, false), ("-", Subtract, false)],
            &[("*", Multiply, false), ("/", Divide, false)],
        ];
        let Some(signs) = SIGNS.get(strength) else { return self.operand() };
        let mut left = self.operators(strength + 1)?;
        while let Some((_, operator, swapped)) = signs.iter().find(|(sign, ..)| self.take(sign)) {
            let right = self.operators(strength + 1)?;
            let both = if *swapped { (right, left) } else { (left, right) };
            left = Formula::Two(*operator, Box::new(both));
        }
        Ok(left)
    }

    fn operand(&mut self) -> Result<Formula, String> {
        if self.take("(") {
            let inside = self.choice()?;
            return self.end(inside);
        }
        if self.take("-") {
            self.depth += 1;
            if self.depth > DEEPEST {
                return Err(format!("nested deeper than {DEEPEST} at byte {}", self.at));
            }
            let negated = (Formula::Number(0.0), self.operand()?);
            self.depth -= 1;
            return Ok(Formula::Two(Operator::Subtract, Box::new(negated)));
        }
        let start = self.at;
        let word = self.word();
        match word {
            "" | "if" | "else" => Err(format!("no number or name at byte {start}")),
            "max" => self.call(Operator::Most),
            "min" => self.call(Operator::Least),
            _ if word.starts_with(|first: char| first.is_ascii_digit() || first == '.') => {
                let number: Option<f64> = word.parse().ok();
                number.map(Formula::Number).ok_or_else(|| format!("'{word}' is no number"))
            }
            _ => Ok(Formula::Name(word.to_owned())),
        }
    }

    fn call(&mut self, operator: Operator) -> Result<Formula, String> {
        if !self.take("(") {
            return Err(format!("no '(' at byte {}", self.at));
        }
        let mut value = self.choice()?;
        while self.take(",") {
            value = Formula::Two(operator, Box::new((value, self.choice()?)));
        }
        self.end(value)
    }

    fn end(&mut self, inside: Formula) -> Result<Formula, String> {
        if self.take(")") { Ok(inside) } else { Err(format!("no ')' at byte {}", self.at)) }
    }
}

impl Formula {
    /// Its value, with `of` for the value of a name.
    ///
    /// # Errors
    /// What `of` says, or that something is divided by 0.
    pub(crate) fn value(
        &self,
        of: &mut dyn FnMut(&str) -> Result<f64, String>,
    ) -> Result<f64, String> {
        Ok(match self {
            Formula::Number(number) => *number,
            Formula::Name(name) => of(name)?,
            Formula::If(parts) if parts.1.value(of)? != 0.0 => parts.0.value(of)?,
            Formula::If(parts) => parts.2.value(of)?,
            Formula::Two(operator, both) => {
                let (a, b) = (both.0.value(of)?, both.1.value(of)?);
                let truth = |holds: bool| f64::from(u8::from(holds));
                match operator {
                    Operator::Add => a + b,
                    Operator::Subtract => a - b,
                    Operator::Multiply => a * b,
                    Operator::Divide if b == 0.0 => {
                        return Err(format!("{} is 0, and divides", both.1.says()));
                    }
                    Operator::Divide => a / b,
                    Operator::Least => a.min(b),
                    Operator::Most => a.max(b),
                    Operator::Below => truth(a < b),
                    Operator::AtMost => truth(a <= b),
                    Operator::And => truth(a != 0.0 && b != 0.0),
                    Operator::Or => truth(a != 0.0 || b != 0.0),
                }
            }
        })
    }

    /// All names in it, in the order of the text.
    pub(crate) fn names<'a>(&'a self, into: &mut Vec<&'a str>) {
        match self {
            Formula::Number(_) => {}
            Formula::Name(name) => into.push(name),
            Formula::Two(_, both) => [&both.0, &both.1].iter().for_each(|part| part.names(into)),
            Formula::If(parts) => {
                [&parts.0, &parts.1, &parts.2].iter().for_each(|part| part.names(into));
            }
        }
    }

    /// Its names, for a message.
    fn says(&self) -> String {
        let mut names = Vec::new();
        self.names(&mut names);
        names.dedup();
        match names.as_slice() {
            [] => "a number".to_owned(),
            [one] => (*one).to_owned(),
            several => format!("what {} come to", several.join(", ")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(text: &str) -> Result<f64, String> {
        parse(text)?.value(&mut |name| match name {
            "a" => Ok(8.0),
            "b.c:c1=0x1" => Ok(2.0),
            "zero" => Ok(0.0),
            _ => Err(format!("no {name}")),
        })
    }

    #[test]
    fn values_as_in_python() {
        let known = [
            ("1 + 2 * 3 - 4", 3.0),
            ("a / b.c:c1=0x1 / 2", 2.0),
            ("-a + 1", -7.0),
            ("max(1, a, 3) - min(2 , a)", 6.0),
            ("1 if a > 5 else 2", 1.0),
            ("1 + 1 if zero else 2 / 4", 0.5),
            ("(1 if a < 5 else zero) + .5", 0.5),
            ("a > 5 & zero > 20 | a >= 8", 1.0),
            ("(a > 5) & (a <= 7)", 0.0),
            ("0.0001", 0.0001),
            // What is not needed is not evaluated.
            ("1 if a else nothing / zero", 1.0),
        ];
        for (text, expected) in known {
            assert_eq!(value(text), Ok(expected), "{text}");
        }
    }

    #[test]
    fn nothing_is_divided_by_zero() {
        assert_eq!(value("1 / zero"), Err("zero is 0, and divides".to_owned()));
        assert_eq!(value("1 / (a - a)"), Err("a is 0, and divides".to_owned()));
        assert_eq!(value("1 / nothing"), Err("no nothing".to_owned()));
    }

    #[test]
    fn hostile_text_is_refused() {
        let deep = "(".repeat(100_000);
        let (minus, ifs) = ("-".repeat(2_999), "1 if 1 else ".repeat(200));
        for text in ["", "(", "1 +", "a b", "1.2.3", "max", "max(", "1 if 2", "§", "1 § 2", ")"]
            .into_iter()
            .chain([deep.as_str(), &deep[..2_999], &minus, &ifs])
        {
            assert!(parse(text).is_err(), "{}", &text[..text.len().min(20)]);
        }
        // A long chain is as deep as it is long, on the left: it must not overflow the stack.
        let chain = format!("1{}", "+1".repeat(1_499));
        assert_eq!(value(&chain), Ok(1_500.0));
    }
}
