/** A result of a search in the form that the model gets. */
export interface Source {
  readonly id: string;
  readonly title: string;
  readonly section: string;
  readonly text: string;
}

const ESCAPES = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;' } as const;

const escapeXml = (text: string): string =>
  text.replace(/[&<>"]/g, (character) => ESCAPES[character as keyof typeof ESCAPES]);

const unescapeXml = (text: string): string =>
  Object.entries(ESCAPES)
    .toReversed() // the ampersand last; otherwise `&amp;lt;` would be decoded twice
    .reduce((all, [character, escape]) => all.replaceAll(escape, character), text);

/** XML chunks: `<source id="…" title="…" section="…">text</source>`, one per line. */
export const formatSources = (sources: readonly Source[]): string =>
  sources
    .map(
      ({ id, title, section, text }) =>
        `<source id="${escapeXml(id)}" title="${escapeXml(title)}" section="${escapeXml(section)}">${escapeXml(text)}</source>`,
    )
    .join('\n');

const SOURCE = /<source id="([^"]*)" title="([^"]*)" section="([^"]*)">([^<]*)<\/source>/g;

/** The sources in a text, in order; other text is skipped. */
export const parseSources = (xml: string): readonly Source[] =>
  Array.from(xml.matchAll(SOURCE), ([, id = '', title = '', section = '', text = '']) => ({
    id: unescapeXml(id),
    title: unescapeXml(title),
    section: unescapeXml(section),
    text: unescapeXml(text),
  }));

/** All text in a tool result or a message, with nested blocks. */
export function wordsOf(value: unknown): string {
  if (typeof value === 'string') return value;
  if (Array.isArray(value)) return value.map(wordsOf).join('\n');
  if (typeof value !== 'object' || value === null) return '';
  const { text, content } = value as { readonly text?: unknown; readonly content?: unknown };
  return wordsOf(text ?? content);
}
