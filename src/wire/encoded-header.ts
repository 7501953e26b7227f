/** Encodes text for a header. Text that a header cannot carry unchanged becomes `=?base64?…?=`. */
export const encodeHeaderText = (text: string): string =>
  /^[\x21-\x7e]([\x20-\x7e]*[\x21-\x7e])?$/.test(text) && !/^=\?base64\?.*\?=$/.test(text)
    ? text
    : `=?base64?${toBase64(text)}?=`;

/** Decodes the text of a header; `undefined` if its base64 is invalid. */
export function decodeHeader(value: string): string | undefined {
  const [, encoded] = /^=\?base64\?(.*)\?=$/.exec(value) ?? [];
  if (encoded === undefined) return value;
  try {
    const bytes = Uint8Array.from(atob(encoded), (char) => char.charCodeAt(0));
    const text = new TextDecoder('utf-8', { ignoreBOM: true }).decode(bytes);
    return btoa(binary(bytes)) === encoded ? text : undefined;
  } catch {
    return undefined; // `atob` throws for characters that are not base64
  }
}

/** The page encodes headers, too, so this uses no module of Node. */
const toBase64 = (text: string): string => btoa(binary(new TextEncoder().encode(text)));

const binary = (bytes: Uint8Array): string =>
  Array.from(bytes, (byte) => String.fromCharCode(byte)).join('');
