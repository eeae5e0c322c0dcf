// The program and the state in the fragment of the address: nothing is stored anywhere else.
const FORM = "deflate-raw";

async function through(stream, bytes) {
  const piped = new Blob([bytes]).stream().pipeThrough(stream);
  return new Uint8Array(await new Response(piped).arrayBuffer());
}

export async function packed(data) {
  const bytes = await through(new CompressionStream(FORM), new TextEncoder().encode(JSON.stringify(data)));
  let letters = "";
  for (let i = 0; i < bytes.length; i += 8192) letters += String.fromCharCode(...bytes.subarray(i, i + 8192));
  return btoa(letters).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}

// Return what a fragment holds, null if it is none of ours.
export async function unpacked(fragment) {
  try {
    const letters = atob(fragment.replaceAll("-", "+").replaceAll("_", "/"));
    const bytes = Uint8Array.from(letters, (letter) => letter.charCodeAt(0));
    return JSON.parse(new TextDecoder().decode(await through(new DecompressionStream(FORM), bytes)));
  } catch {
    return null;
  }
}
