//! Standard output that may be closed at any time.

use std::io::{self, BufWriter, StdoutLock, Write};

/// Standard output, buffered. A reader that has seen enough, as `head` has, is not an error.
pub fn standard_output() -> BufWriter<UntilClosed<StdoutLock<'static>>> {
    BufWriter::new(UntilClosed(io::stdout().lock()))
}

/// Writes until nobody reads any more, and takes the rest as written.
#[derive(Debug)]
pub struct UntilClosed<W>(W);

impl<W: Write> Write for UntilClosed<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.0.write(bytes) {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(bytes.len()),
            result => result,
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self.0.flush() {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            result => result,
        }
    }
}
