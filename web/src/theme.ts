/** Light, dark, or as the system says. */
export type Theme = "system" | "light" | "dark";

export function currentTheme(): Theme {
  const stored = localStorage.getItem("theme");
  return stored === "light" || stored === "dark" ? stored : "system";
}

export function setTheme(theme: Theme): void {
  if (theme === "system") localStorage.removeItem("theme");
  else localStorage.setItem("theme", theme);
  applyTheme();
  dispatchEvent(new Event("themechange"));
}

export function applyTheme(): void {
  const theme = currentTheme();
  if (theme === "system") delete document.documentElement.dataset["theme"];
  else document.documentElement.dataset["theme"] = theme;
}

export function isDark(): boolean {
  const theme = currentTheme();
  return theme === "dark" || (theme === "system" && matchMedia("(prefers-color-scheme: dark)").matches);
}

/** Calls `changed` when the colours change. */
export function onTheme(changed: () => void): () => void {
  const query = matchMedia("(prefers-color-scheme: dark)");
  query.addEventListener("change", changed);
  addEventListener("themechange", changed);
  return () => {
    query.removeEventListener("change", changed);
    removeEventListener("themechange", changed);
  };
}
