//! `stead events SESSION [-f]`: shows a journal, its end, or new events.

use stead_api::{Event, List, Session};

use crate::client::{Client, follow, segment};
use crate::context::Context;
use crate::failure::Failure;
use crate::render;

#[derive(Debug, clap::Args)]
pub(crate) struct Events {
    /// The session's id
    session: String,
    /// Keep printing new events until the session has ended
    #[arg(short, long)]
    follow: bool,
    /// Only events after this sequence number; 0 starts at the beginning
    #[arg(long, value_name = "SEQ")]
    after: Option<u64>,
    /// Maximum number of events to show; without --after, the most recent
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..))]
    limit: u32,
}

impl Events {
    pub(crate) fn run(&self, context: &Context) -> Result<(), Failure> {
        let client = context.client()?;
        if self.follow {
            return self.go_on(context, client);
        }
        let (listing, omitted) = self.page(&client)?;
        context.out.either(&listing, || {
            render::events(&context.out, &listing.items)?;
            if omitted > 0 {
                context.out.note(&format!("{omitted} earlier events are not shown; --after 0 starts at the first"));
            }
            render::note_more(&context.out, &listing);
            Ok(())
        })
    }

    /// Returns the events after `--after`, or the last ones of the journal, with the number of
    /// events before them.
    fn page(&self, client: &Client) -> Result<(List<Event>, u64), Failure> {
        let session = segment(&self.session);
        let (after, omitted) = match self.after {
            Some(after) => (after, 0),
            None => {
                let found: Session = client.get(&format!("/sessions/{session}"))?;
                let after = found.seq.saturating_sub(u64::from(self.limit));
                (after, after)
            }
        };
        Ok((client.list(&format!("/sessions/{session}/events?after={after}"), self.limit)?, omitted))
    }

    fn go_on(&self, context: &Context, client: Client) -> Result<(), Failure> {
        let out = &context.out;
        follow(
            client,
            || context.moved_server(),
            &self.session,
            self.after.unwrap_or(0),
            |event| if out.is_json() { out.json_line(event) } else { out.line(&render::event_row(event)) },
            |what| out.note(what),
        )
    }
}
