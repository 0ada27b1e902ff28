"use strict";

/** Returns the data of this page. */
function pageData() {
  return JSON.parse(document.getElementById("data").textContent);
}

/** Returns a new element; null and false leave an attribute out; strings among the children are text, never HTML. */
function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if ((value ?? false) !== false) made.setAttribute(key, value === true ? "" : value);
  }
  made.append(...children);
  return made;
}

/** Lets the button with id "theme" change between light and dark; until then the page follows the system. */
function startTheme() {
  const button = document.getElementById("theme");
  const system = matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => (document.documentElement.style.colorScheme || (system.matches ? "dark" : "light")) === "dark";
  const label = () => { button.textContent = isDark() ? "Light theme" : "Dark theme"; };
  button.addEventListener("click", () => {
    document.documentElement.style.colorScheme = isDark() ? "light" : "dark";
    label();
  });
  system.addEventListener("change", label);
  label();
}

startTheme();
