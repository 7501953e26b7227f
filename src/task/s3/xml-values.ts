const ENTITIES: Readonly<Record<string, string>> = {
  amp: '&',
  lt: '<',
  gt: '>',
  quot: '"',
  apos: "'",
};

/**
 * Returns the texts of all elements of this name. The replies of S3 are flat enough for this: the
 * elements that we read contain text only.
 */
export function xmlValues(xml: string, name: string): readonly string[] {
  const [open, close] = [`<${name}>`, `</${name}>`];
  const values: string[] = [];
  for (let at = xml.indexOf(open); at !== -1; at = xml.indexOf(open, at)) {
    const start = at + open.length;
    const end = xml.indexOf(close, start);
    if (end === -1) break;
    values.push(decodeEntities(xml.slice(start, end)));
    at = end;
  }
  return values;
}

const decodeEntities = (text: string): string =>
  text.replace(/&(#x[0-9a-f]{1,6}|#[0-9]{1,7}|[a-z]{2,4});/gi, (all, entity: string) => {
    if (!entity.startsWith('#')) return ENTITIES[entity.toLowerCase()] ?? all;
    const code = /^#x/i.test(entity) ? parseInt(entity.slice(2), 16) : Number(entity.slice(1));
    return code <= 0x10_ffff ? String.fromCodePoint(code) : all;
  });

/** Encodes text for an element. */
export const xmlText = (text: string): string =>
  text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');
