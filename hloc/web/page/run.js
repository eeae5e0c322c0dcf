// A state run on inputs that are random, typed or from a file; its results as a file.
import { ask } from "./ask.js";
import { make } from "./dom.js";
import { base64, bytesOf } from "./link.js";

const MOST_BYTES = 8 << 20;  // of a file; the server takes no larger one
const chosen = { seed: 0, inputs: "", file: "", data: "" };  // kept from state to state

function verdict(view, { ok, text }) {
  make("div", `verdict ${ok ? "good" : "bad"}`, text, view);
}

async function take(file) {
  if (file && file.size > MOST_BYTES) throw new Error(`${file.name} has more than ${MOST_BYTES >> 20} MiB`);
  const data = file ? base64(new Uint8Array(await file.arrayBuffer())) : "";
  Object.assign(chosen, { file: file ? file.name : "", data });
}

function save(letters, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([bytesOf(letters)]));
  link.download = name;
  link.click();
  URL.revokeObjectURL(link.href);
}

function fileField(view, told) {
  const bar = make("div", "bar", undefined, view), label = make("label", "", "from a file ", bar), input = make("input", "", undefined, label);
  Object.assign(input, { type: "file", accept: ".npz,.npy" });
  input.setAttribute("aria-label", "File of inputs, .npz or .npy");
  const name = make("span", "", chosen.file && `${chosen.file} is taken`, bar);
  input.addEventListener("change", async () => {
    told.replaceChildren();
    try {
      await take(input.files[0]);
    } catch (fault) {
      await take(null);
      make("div", "fault", fault.message, told);
    }
    name.textContent = chosen.file && `${chosen.file} is taken`;
  });
}

// Running costs time and is asked for by a button.
export function showRun(view, question) {
  return () => {
    const bar = make("div", "bar", undefined, view);
    const run = make("button", "", "Run", bar), verify = make("button", "", "Verify", bar);
    const label = make("label", "", "seed ", bar), seed = make("input", "", undefined, label);
    Object.assign(seed, { type: "number", min: 0, value: chosen.seed });
    run.title = "Compile this state and run it; compare with the input in the reference evaluator";
    verify.title = "Compare this state with the input on 24 sets of inputs, special values too";
    const field = make("label", "inputs", "Inputs, a line each; all others are random, or from the file", view), inputs = make("textarea", "", undefined, field);
    Object.assign(inputs, { value: chosen.inputs, rows: 3, spellcheck: false, placeholder: "x=normal(0,1)\nmask=zeros\nweights=@inputs.npz:w" });
    inputs.addEventListener("input", () => { chosen.inputs = inputs.value; });
    const told = make("div", "");
    fileField(view, told);
    view.append(told);
    told.setAttribute("role", "status");
    const then = (what) => async () => {
      chosen.seed = Math.max(0, Math.trunc(Number(seed.value)) || 0);
      run.disabled = verify.disabled = true;
      try {
        const { seed, inputs, ...file } = chosen;
        const answer = await ask({ ...question, ask: what, seed, inputs, ...(what === "run" ? file : {}) });
        told.replaceChildren();
        verdict(told, answer);
        if (answer.results) {
          const keep = make("button", "save", "Save results as .npz", make("div", "bar", undefined, told));
          keep.addEventListener("click", () => save(answer.results, "results.npz"));
        } else if (what === "run") make("p", "quiet", "The results are too large to be saved from here.", told);
      } catch (fault) {
        told.replaceChildren();
        make("div", "fault", fault.message, told);
      }
      run.disabled = verify.disabled = false;
    };
    run.addEventListener("click", then("run"));
    verify.addEventListener("click", then("verify"));
  };
}
