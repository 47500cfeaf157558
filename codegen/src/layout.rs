//! Lines of Rust, broken where they are too long.

/// The longest line.
pub(crate) const WIDTH: usize = 120;

/// Text that grows line by line.
#[derive(Debug, Default)]
pub(crate) struct Lines {
    text: String,
    indent: usize,
}

impl Lines {
    /// A statement or item, broken at its last brackets where it is too long.
    pub(crate) fn line(&mut self, statement: &str) {
        if statement.is_empty() {
            self.text.push('\n');
        } else {
            wrap(&mut self.text, statement, self.indent);
        }
    }

    /// A statement or item with a comment: behind it where the line has room, else above it.
    pub(crate) fn commented(&mut self, statement: &str, comment: &str) {
        if comment.is_empty() {
            return self.line(statement);
        }
        if self.indent + statement.len() + 4 + comment.len() <= WIDTH {
            push_line(&mut self.text, &format!("{statement} // {comment}"), self.indent);
        } else {
            push_line(&mut self.text, &format!("// {comment}"), self.indent);
            self.line(statement);
        }
    }

    /// A line that opens a block: what follows is indented.
    pub(crate) fn open(&mut self, line: &str) {
        self.line(line);
        self.indent += 4;
    }

    /// A function of one expression with a comment, on one line where it has room.
    pub(crate) fn function(&mut self, head: &str, body: &str, comment: &str) {
        let whole = format!("{head} {{ {body} }}");
        if self.indent + whole.len() <= WIDTH {
            return self.commented(&whole, comment);
        }
        self.commented(&format!("{head} {{"), comment);
        self.indent();
        self.line(body);
        self.close("}");
    }

    /// What follows is indented.
    pub(crate) fn indent(&mut self) {
        self.indent += 4;
    }

    /// A line that closes a block.
    pub(crate) fn close(&mut self, line: &str) {
        self.indent = self.indent.saturating_sub(4);
        self.line(line);
    }

    /// A line that closes one block and opens another.
    pub(crate) fn turn(&mut self, line: &str) {
        self.close(line);
        self.indent += 4;
    }

    /// What was written.
    pub(crate) fn finish(self) -> String {
        self.text
    }

    /// Lines written elsewhere, as they are.
    pub(crate) fn append(&mut self, other: Lines) {
        self.text.push_str(&other.text);
    }
}

fn push_line(text: &mut String, line: &str, indent: usize) {
    text.extend(std::iter::repeat_n(' ', indent));
    text.push_str(line);
    text.push('\n');
}

/// Writes `code`; where it is too long, what stands in its last outermost brackets goes on lines of its own.
fn wrap(text: &mut String, code: &str, indent: usize) {
    if indent + code.len() <= WIDTH || code.starts_with("//") {
        return push_line(text, code, indent);
    }
    let Some((mut open, mut close)) = last_group(code) else { return push_line(text, code, indent) };
    // `Ok(Model { ... })`: brackets around one bracketed thing open and close with it.
    while let Some(inner) = code.get(open + 1..close)
        && let Some((start, end)) = last_group(inner)
        && end + 1 == inner.len()
        && split_commas(inner).len() == 1
    {
        (open, close) = (open + 1 + start, open + 1 + end);
    }
    let (head, rest) = code.split_at(open + 1);
    let (inner, tail) = rest.split_at(close - open - 1);
    // The body of a function is one expression, and no list.
    if code.starts_with("fn ") && head.ends_with('{') {
        push_line(text, head, indent);
        wrap(text, inner.trim(), indent + 4);
        return push_line(text, tail, indent);
    }
    let items = split_commas(inner);
    if items.is_empty() {
        return push_line(text, code, indent);
    }
    push_line(text, head, indent);
    // Short items of a list (numbers, pairs) share lines.
    let short = items.len() > 8 && items.iter().all(|i| i.len() < 40);
    let mut row = String::new();
    for item in &items {
        if !short {
            wrap(text, &format!("{item},"), indent + 4);
            continue;
        }
        if !row.is_empty() && indent + 4 + row.len() + item.len() + 2 > WIDTH {
            push_line(text, &row, indent + 4);
            row.clear();
        }
        if !row.is_empty() {
            row.push(' ');
        }
        row.push_str(item);
        row.push(',');
    }
    if !row.is_empty() {
        push_line(text, &row, indent + 4);
    }
    push_line(text, tail, indent);
}

/// Positions of the last bracket pair that is in no other and holds something.
fn last_group(code: &str) -> Option<(usize, usize)> {
    let mut found = None;
    let mut start = 0;
    scan(code, |at, c, depth| {
        if depth == 0 && matches!(c, '(' | '[' | '{') {
            start = at;
        } else if depth == 1 && matches!(c, ')' | ']' | '}') && at > start + 1 {
            found = Some((start, at));
        }
    });
    found
}

/// The parts of `code` between commas that stand in no brackets.
fn split_commas(code: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut from = 0;
    scan(code, |at, c, depth| {
        if depth == 0 && c == ',' {
            parts.extend(code.get(from..at));
            from = at + 1;
        }
    });
    parts.extend(code.get(from..));
    parts.iter().map(|p| p.trim()).filter(|p| !p.is_empty()).collect()
}

/// Calls `visit` with each character outside string literals, its position, and the depth of brackets before it.
fn scan(code: &str, mut visit: impl FnMut(usize, char, usize)) {
    let (mut depth, mut quoted, mut escaped) = (0usize, false, false);
    for (at, c) in code.char_indices() {
        if quoted {
            match c {
                _ if escaped => escaped = false,
                '\\' => escaped = true,
                '"' => quoted = false,
                _ => {}
            }
            continue;
        }
        visit(at, c, depth);
        match c {
            '"' => quoted = true,
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_calls_are_broken_at_their_arguments() {
        let mut lines = Lines::default();
        let long = "x".repeat(60);
        lines.line(&format!("f.at(1).call(&P0, [{long}, \"a), (b\"], [{long}])?;"));
        assert_eq!(lines.finish(), format!("f.at(1).call(\n    &P0,\n    [{long}, \"a), (b\"],\n    [{long}],\n)?;\n"));
    }

    #[test]
    fn bodies_of_functions_are_no_lists() {
        let mut lines = Lines::default();
        let long = "x".repeat(80);
        lines.line(&format!("fn v(sizes: &Sizes) -> R {{ f(1, [{long}], None) }}"));
        assert_eq!(lines.finish(), format!("fn v(sizes: &Sizes) -> R {{\n    f(1, [{long}], None)\n}}\n"));
    }
}
