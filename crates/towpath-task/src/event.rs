//! What happens beside messages.

pub use crate::parts::news::Event;

use towpath_vm::talk::{ToDaemon, encode};

use crate::task::Task;

impl Task {
    /// What happened next, if anything did; does not wait ([`Task::wait`] does).
    pub fn next_event(&mut self) -> Option<Event> {
        let event = self.news.events.pop_front()?;
        self.output_taken(&event);
        Some(event)
    }

    /// More output may come as far as this was some.
    fn output_taken(&mut self, event: &Event) {
        if let Event::Output { bytes, .. } = event {
            let credit = ToDaemon::OutputCredit(bytes.len() as u32);
            self.link.queue(&encode(&credit, Vec::new()));
        }
    }
}
