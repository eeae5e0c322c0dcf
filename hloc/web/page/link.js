// The program and the state in the fragment of the address: nothing is stored anywhere else.
const FORM = "deflate-raw";

async function through(stream, bytes) {
  const piped = new Blob([bytes]).stream().pipeThrough(stream);
  return new Uint8Array(await new Response(piped).arrayBuffer());
}

export function base64(bytes) {
  let letters = "";
  for (let i = 0; i < bytes.length; i += 8192) letters += String.fromCharCode(...bytes.subarray(i, i + 8192));
  return btoa(letters);
}

export const bytesOf = (letters) => Uint8Array.from(atob(letters), (letter) => letter.charCodeAt(0));

export async function packed(data) {
  const bytes = await through(new CompressionStream(FORM), new TextEncoder().encode(JSON.stringify(data)));
  return base64(bytes).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}

// Return what a fragment holds, null if it is none of ours.
export async function unpacked(fragment) {
  try {
    const bytes = bytesOf(fragment.replaceAll("-", "+").replaceAll("_", "/"));
    return JSON.parse(new TextDecoder().decode(await through(new DecompressionStream(FORM), bytes)));
  } catch {
    return null;
  }
}
