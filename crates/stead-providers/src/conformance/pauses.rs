//! Checks that a paused box keeps its files, and that a frozen one can be removed.

use serde_json::json;
use stead_core::pause::PauseMode;
use stead_core::tool::ToolName;

use super::{Suite, Violation, call, hold, now, ok, read};
use crate::contract::provider::{AdoptOrder, FileEvent};

const KEPT: &str = "a paused workspace keeps its files";

impl Suite<'_> {
    pub(super) async fn paused_boxes_keep_their_files(&self) -> Result<(), Violation> {
        let workspace = self.create(14).await?;
        let done = call(&*workspace, ToolName::Write, json!({"path": "d/kept.txt", "content": "kept"})).await.done;
        let (create, tree_hash) = (self.order(14), done.tree_hash);
        let (session, id) = (create.session, create.workspace);
        let history =
            vec![FileEvent { session, seq: 1, at: now(), changes: done.changes, marks: Vec::new(), tree_hash }];
        done.staged.publish();
        for _ in 0..2 {
            ok("a box is stopped, also twice", self.provider.pause(id, PauseMode::Stop).await)?;
        }
        let stale = read(&*workspace, "d/kept.txt").await;
        let commands = self.provider.capabilities().tools.contains(&ToolName::Bash);
        hold("a stopped box starts only by adoption", !commands || stale.is_none(), format!("{stale:?}"))?;
        drop(workspace);
        let adopted = self.provider.adopt(&AdoptOrder { create, history }).await;
        let adopted = ok("a stopped workspace is adopted", adopted)?;
        let kept = read(&*adopted, "d/kept.txt").await;
        hold(KEPT, kept.as_deref() == Some("kept"), format!("{kept:?}"))?;
        if self.provider.freezes().is_ok() {
            for _ in 0..2 {
                ok("a box is frozen, also twice", self.provider.pause(id, PauseMode::Freeze).await)?;
            }
            for _ in 0..2 {
                ok("a box is thawed, also twice", self.provider.thaw(id).await)?;
            }
            let kept = read(&*adopted, "d/kept.txt").await;
            hold(KEPT, kept.as_deref() == Some("kept"), format!("{kept:?}"))?;
            ok("a box is frozen again", self.provider.pause(id, PauseMode::Freeze).await)?;
        }
        self.remove(14).await
    }
}
