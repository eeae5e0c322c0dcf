// Elements and words. Every text from a module goes in through textContent.
export const byId = (id) => document.getElementById(id);

export function make(tag, className, text, parent) {
  const element = document.createElement(tag);
  if (className) element.className = className;
  if (text !== undefined) element.textContent = text;
  if (parent) parent.append(element);
  return element;
}

// A labelled box to tick; `changed` hears of it.
export function checkbox(parent, label, checked, changed) {
  const box = make("label", "", undefined, parent), input = make("input", "", undefined, box);
  input.type = "checkbox";
  input.checked = checked;
  box.append(` ${label}`);
  input.addEventListener("change", () => changed(input.checked));
}

export const number = (n) => n.toLocaleString("en");
export const counted = (n, what) => `${number(n)} ${what}${n === 1 ? "" : "s"}`;

// Return a function that calls `then` once, when it has not been called for `wait` milliseconds.
export function settled(wait, then) {
  let timer = 0;
  return () => {
    clearTimeout(timer);
    timer = setTimeout(then, wait);
  };
}

// Rows of `parent`, a table or a pre in the scrolled `view`, are drawn as they come into view:
// thousands at once take seconds.
const BATCH = 250;
export function drawAsSeen(view, parent, count, draw) {
  const end = make("p", "quiet", "", view), drawn = [];
  const watcher = new IntersectionObserver((seen) => {
    if (seen.some((entry) => entry.isIntersecting)) until(drawn.length + BATCH);
  }, { root: view, rootMargin: "1500px" });
  function until(most) {
    while (drawn.length < Math.min(most, count)) drawn.push(draw(parent, drawn.length));
    watcher.disconnect();
    end.hidden = drawn.length >= count;
    end.textContent = `${counted(count - drawn.length, "row")} below`;
    if (!end.hidden && end.isConnected) watcher.observe(end);
  }
  until(BATCH);
  return { drawn, until };
}
