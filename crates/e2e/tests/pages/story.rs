//! What is known of a page whose commands are run: where they are run, what stands before them, and what they have to say.

/// A page and its commands, in their order.
pub struct Story {
    /// From the root of the repository.
    pub page: &'static str,
    pub place: Place,
    /// Files of the reader's folder, each one of the page's own `yaml` blocks: the first one that has these words.
    pub files: &'static [(&'static str, &'static str)],
    /// What Prometheus has of the namespace.
    pub series: &'static [Series],
    /// Whether an operator looks after the namespace meanwhile.
    pub operator: bool,
    /// What the reader is to replace on this page, and by what, beside [`REPLACED`].
    pub replaced: &'static [(&'static str, &'static str)],
    pub steps: &'static [Step],
}

/// Name, labels and value.
pub type Series = (&'static str, &'static [(&'static str, &'static str)], f64);

/// Where the commands are run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Without a cluster.
    Anywhere,
    /// In a namespace of a cluster that other pages have theirs in at the same time. The namespace is that of the context.
    Namespace,
    /// In a cluster that no other page uses at the same time.
    Cluster,
}

/// A page without a cluster of which nothing is known.
pub const STORY: Story = Story { page: "", place: Place::Anywhere, files: &[], series: &[], operator: false, replaced: &[], steps: &[] };

/// What readers replace by what is theirs, on every page: whole words of the commands. A port may be another program's here.
pub const REPLACED: [(&str, &str); 7] = [
    ("llmscaler operator", "llmscaler operator --health-probe-bind-address=127.0.0.1:0"),
    ("NAME", "chat"),
    ("NAMESPACE", "serving"),
    ("TARGET", "chat"),
    ("N", "3"),
    ("REGISTRY", "registry.example.com"),
    ("TAG", "v1"),
];

/// One command of a page.
#[derive(Clone, Copy)]
pub struct Step {
    /// How it begins on the page: what stands there is run, all of it.
    pub begins: &'static str,
    /// Lines of bash that are run before it, in the same shell.
    pub given: &'static str,
    pub ends: End,
    /// What its output has, line breaks and blanks aside.
    pub says: &'static [&'static str],
    /// Whether its output is what the page shows, to the letter.
    pub as_shown: bool,
    /// Lines of bash that have to succeed once it is over, or while it goes on.
    pub then: &'static str,
}

/// How a command ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// By itself, with this exit code.
    Code(i32),
    /// By ctrl-C, when the block is over. It has begun once it has said this. What of ours is interrupted ends with 0.
    CtrlC(&'static str),
}

/// A command that is expected to succeed.
pub const fn run(begins: &'static str) -> Step {
    Step { begins, given: "", ends: End::Code(0), says: &[], as_shown: false, then: "" }
}

impl Step {
    /// Arranges what the page takes for granted.
    pub const fn given(mut self, lines: &'static str) -> Self {
        self.given = lines;
        self
    }

    /// Its output has to have this.
    pub const fn says(mut self, says: &'static [&'static str]) -> Self {
        self.says = says;
        self
    }

    /// Its output has to be the page's.
    pub const fn as_shown(mut self) -> Self {
        self.as_shown = true;
        self
    }

    /// What it has brought about.
    pub const fn then(mut self, lines: &'static str) -> Self {
        self.then = lines;
        self
    }

    /// It ends with another exit code than 0.
    pub const fn exits(mut self, code: i32) -> Self {
        self.ends = End::Code(code);
        self
    }

    /// It goes on until it is interrupted, and has begun once it says this.
    pub const fn goes_on(mut self, begun: &'static str) -> Self {
        self.ends = End::CtrlC(begun);
        self
    }
}
