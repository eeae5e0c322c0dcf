// A lesson: its text in a frame, and below it the exercise with its check.
import { fetched, posted } from "./ask.js";
import { frame } from "./charts.js";
import { make } from "./dom.js";

const answers = new Map();  // number of the program -> what was written, until the page is closed

function drawReport(told, report) {
  told.replaceChildren();
  const words = report.passed ? `Passed, score ${report.score} of 100.` : "Not yet.";
  make("div", `verdict ${report.passed ? "good" : "bad"}`, words, told);
  const list = make("ul", "findings", undefined, told);
  for (const { name, ok, text } of report.findings) {
    const row = make("li", ok ? "good" : "bad", name, list);
    if (text) make("pre", "", text, row);
  }
}

export async function showLesson(view, program) {
  const lesson = await fetched(`api/programs/${program}/lesson`);
  return () => {
    frame(view, lesson.frame, "Text of the lesson", "lesson");
    const bar = make("div", "bar", undefined, view), check = make("button", "", "Check", bar);
    make("span", "", "your answer, in Python; it runs on this machine under limits", bar);
    const input = make("textarea", "answer", undefined, view);
    input.setAttribute("aria-label", "Answer to the exercise");
    input.spellcheck = false;
    input.value = answers.get(program) ?? lesson.exercise;
    input.addEventListener("input", () => answers.set(program, input.value));
    const told = make("div", "", undefined, view);
    told.setAttribute("role", "status");
    check.addEventListener("click", async () => {
      check.disabled = true;
      try {
        drawReport(told, await posted(`api/programs/${program}/check`, { answer: input.value }));
      } catch (fault) {
        told.replaceChildren();
        make("div", "fault", fault.message, told);
      }
      check.disabled = false;
    });
  };
}
