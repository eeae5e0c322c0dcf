"use strict";
// Plays a recorded session of `hloc web`: answers the page from the recording, and leads through it.
(() => {
  const { recording } = globalThis, { answers, defaults, steps } = recording;
  const refuse = (message) => ({ faults: [{ message, notes: ["hloc web answers this on your machine"], code: "", line: null }] });

  function keyOf(address, body) {
    if (address === "api/ask") {
      const fields = { ...defaults, ...body };
      if (fields.text !== recording.text) return null;
      return JSON.stringify(Object.keys(fields).filter((name) => name !== "text").sort().map((name) => fields[name]));
    }
    return address.endsWith("/check") ? `check ${body.answer}` : address.replace("api/", "");
  }

  globalThis.fetch = async (address, options) => {
    const key = keyOf(address, options && options.body ? JSON.parse(options.body) : null);
    const answer = answers[key] || refuse("this is not in the recording");
    return new Response(JSON.stringify(answer), { headers: { "content-type": "application/json" } });
  };

  // ---- the steps

  const one = (selector) => document.querySelector(selector);
  const pause = () => new Promise((resume) => { setTimeout(resume, 20); });

  async function found(selector) {
    for (let i = 0; i < 500; i++) {
      const element = one(selector);
      if (element && !element.hidden && !element.disabled) return element;
      await pause();
    }
    throw new Error(`the recording has no ${selector}`);
  }

  // Return when the page has not changed for a while: an action is carried out on what it drew.
  const settled = () => new Promise((resume) => {
    const watcher = new MutationObserver(wait), QUIET = 80;
    let timer = 0;
    function wait() {
      clearTimeout(timer);
      timer = setTimeout(() => { watcher.disconnect(); resume(); }, QUIET);
    }
    watcher.observe(one("main"), { subtree: true, childList: true, characterData: true, attributes: true });
    wait();
  });

  async function carryOut(action) {
    if (typeof action === "string") {
      (await found(action)).click();
      return void await settled();
    }
    const [selector, text] = action, field = await found(selector);
    field.value = text;
    field.dispatchEvent(new Event("input"));
  }

  async function until([selector, words]) {
    const shown = () => [...document.querySelectorAll(selector)].find((element) => element.textContent.includes(words));
    while (!shown()) await pause();
    shown().scrollIntoView({ block: "nearest" });
  }

  let at = 0, isMoving = false;
  async function go(to) {
    if (isMoving || to < 0 || to >= steps.length) return;
    isMoving = true;
    try {
      for (const action of steps[to].do) await carryOut(action);
      await until(steps[to].shows);
      at = to;
    } finally {
      isMoving = false;
    }
    show();
  }

  function show() {
    one("#player .say").textContent = steps[at].say;
    one("#player .count").textContent = `${at + 1} of ${steps.length}`;
    one("#player .back").disabled = at === 0;
    one("#player .next").disabled = at === steps.length - 1;
  }

  function build() {
    const bar = document.createElement("footer");
    bar.id = "player";
    for (const [tag, name, text] of [["a", "site", "‹ hloc web"], ["b", "", recording.title], ["button", "back", "Back"], ["button", "next", "Next"],
      ["span", "count", ""], ["span", "say", ""]]) {
      const element = document.createElement(tag);
      element.className = name;
      element.textContent = text;
      bar.append(element);
    }
    document.body.append(bar);
    one("#player .site").href = "../../web.html";
    one("#player .say").setAttribute("role", "status");
    one("#player .back").addEventListener("click", () => go(at - 1));
    one("#player .next").addEventListener("click", () => go(at + 1));
    one("#link").hidden = true;
    one("#editor textarea").readOnly = true;
    go(0);
  }
  addEventListener("load", build);
})();
