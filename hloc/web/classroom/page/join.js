// Joins the class: sends the name, gets a session, goes to its page.
const form = document.getElementById("join"), fault = document.getElementById("fault");

form.addEventListener("submit", async (event) => {
  event.preventDefault();
  fault.textContent = "";
  try {
    const response = await fetch("api/join", {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ name: document.getElementById("name").value }),
    });
    const answer = await response.json();
    if (answer.desk) location.assign(answer.desk);
    else fault.textContent = [answer.faults[0].message, ...answer.faults[0].notes].join("; ");
  } catch {
    fault.textContent = "the class does not answer; ask the teacher";
  }
});
