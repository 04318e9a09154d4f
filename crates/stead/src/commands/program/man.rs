//! `stead man [--dir DIR]`

use std::path::PathBuf;

use serde_json::json;

use crate::args;
use crate::context::Context;
use crate::failure::Failure;

#[derive(Debug, clap::Args)]
pub(crate) struct Man {
    /// Write a page for every command into this directory, such as ~/.local/share/man/man1
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

impl Man {
    pub(crate) fn run(&self, context: &Context) -> Result<(), Failure> {
        let Some(dir) = &self.dir else {
            let mut page = Vec::new();
            let rendered = clap_mangen::Man::new(args::command()).render(&mut page);
            rendered.map_err(|error| Failure::new("cannot make the page").because(&error))?;
            let page = String::from_utf8_lossy(&page).into_owned();
            return context.out.either(&json!({"page": page}), || context.out.content(&page));
        };
        let failed = |error: std::io::Error| Failure::new(format!("cannot write to {}", dir.display())).because(&error);
        std::fs::create_dir_all(dir).map_err(failed)?;
        clap_mangen::generate_to(args::command(), dir).map_err(failed)?;
        let mut pages: Vec<String> = std::fs::read_dir(dir)
            .map_err(failed)?
            .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
            .filter(|name| name.starts_with("stead") && name.ends_with(".1"))
            .collect();
        pages.sort();
        context.out.either(&json!({"dir": dir, "pages": pages}), || {
            context.out.line(&format!("{} pages in {}", pages.len(), dir.display()))?;
            context.out.note(&format!("read them with: man {}/stead.1", dir.display()));
            Ok(())
        })
    }
}
