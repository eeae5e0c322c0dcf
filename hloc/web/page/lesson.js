// A lesson: its text in a frame, and below it the exercise with its check.
import { fetched, posted } from "./ask.js";
import { frame } from "./charts.js";
import { make } from "./dom.js";

// By number of the program, until the page is closed: what was written, what the last check said.
const answers = new Map(), reports = new Map();

function drawReport(program) {
  const told = document.querySelector(`#view [data-report="${program}"]`), report = reports.get(program);
  if (!told || !report) return;  // another view is shown
  told.replaceChildren();
  if (report.fault) return void make("div", "fault", report.fault, told);
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
    told.dataset.report = program;
    drawReport(program);
    check.addEventListener("click", async () => {
      check.disabled = true;
      try {
        reports.set(program, await posted(`api/programs/${program}/check`, { answer: input.value }));
      } catch (fault) {
        reports.set(program, { fault: fault.message });
      }
      check.disabled = false;
      drawReport(program);  // in the view of now, which may have been drawn anew
    });
  };
}
