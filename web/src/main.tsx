import { render } from "preact";
import { App } from "./app";
import "./style/base.css";
import "./style/parts.css";
import "./style/layout.css";
import "./style/sessions.css";
import "./style/timeline.css";
import { applyTheme } from "./theme";

applyTheme();
render(<App />, document.getElementById("root")!);
