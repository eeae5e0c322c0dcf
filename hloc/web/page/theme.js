"use strict";
// Light or dark, before anything is drawn: as the button was set last, else as the system is.
(() => {
  const root = document.documentElement, system = matchMedia("(prefers-color-scheme: dark)");
  const kept = () => { try { return localStorage.getItem("theme"); } catch { return null; } };
  const show = (theme) => {
    root.dataset.theme = theme || (system.matches ? "dark" : "light");
    const button = document.getElementById("theme");
    if (button) button.textContent = root.dataset.theme === "dark" ? "Light" : "Dark";
  };
  show(kept());
  system.addEventListener("change", () => show(kept()));
  addEventListener("DOMContentLoaded", () => {
    document.getElementById("theme").addEventListener("click", () => {
      const theme = root.dataset.theme === "dark" ? "light" : "dark";
      try { localStorage.setItem("theme", theme); } catch { /* a private window keeps nothing */ }
      show(theme);
    });
    show(kept());
  });
})();
