/**
 * Control characters except tab and new line, and the characters that change the direction of text:
 * with these, a command that a person approves could be shown in another order than it runs.
 */
// oxlint-disable-next-line no-control-regex -- it removes them
const CONTROL = /[\0-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]/g;

/**
 * Removes the characters that control a terminal from foreign text: model output must not move the
 * cursor, change the title or hide text.
 */
export const stripControlCharacters = (text: string): string =>
  text.replace(CONTROL, (char) => (char === '\r' ? '' : '\ufffd'));
