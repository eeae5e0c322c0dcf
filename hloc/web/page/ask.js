// Questions to the server; an answer with faults throws them.
import { byId } from "./dom.js";

export class Faults extends Error {
  constructor(faults) {
    super(faults.map((fault) => fault.text || [fault.message, ...(fault.notes || [])].join("\n")).join("\n\n"));
    this.faults = faults;
  }
}

let busy = 0;
function show(by) {
  busy += by;
  byId("busy").className = busy ? "on" : "";
  byId("busy").textContent = busy ? "working" : "";
}

async function answered(address, options) {
  let response;
  try {
    response = await fetch(address, options);
  } catch {
    throw new Faults([{ message: "hloc web no longer answers; start it again", notes: [] }]);
  }
  let answer;
  try {
    answer = await response.json();
  } catch {
    throw new Faults([{ message: `the server answered ${response.status}`, notes: [] }]);
  }
  if (answer.faults && !("rows" in answer)) throw new Faults(answer.faults);
  return answer;
}

export const fetched = (address) => answered(address);

// Post `data` to the server; `quiet` does not show that it works.
export async function posted(address, data, quiet = false) {
  if (!quiet) show(1);
  try {
    return await answered(address, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify(data),
    });
  } finally {
    if (!quiet) show(-1);
  }
}

export const ask = (question) => posted("api/ask", question, question.ask === "check");
