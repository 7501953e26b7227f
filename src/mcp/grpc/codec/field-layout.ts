/**
 * How the items of one list are laid out in their message of mcp.proto. The codec is written by
 * hand, directly from and to JSON, because lists are long: generated code creates an object for
 * every item, at three times the cost. A test compares it with the generated code.
 */
export interface Layout {
  readonly fields: ReadonlyMap<string, Field>;
  readonly byTag: readonly (Field | undefined)[];
}

interface Field {
  readonly key: string;
  readonly tag: number;
  /** Text as it is, or any value as JSON. */
  readonly kind: 'text' | 'json';
}

/** The tag of a length-delimited field. */
export const tagOf = (number: number): number => (number << 3) | 2;

/** The last field of every item: members without a field of their own. */
export const EXTRA_TAG: number = tagOf(9);

const fieldsOf = (kind: Field['kind'], numbers: Record<string, number>): Field[] =>
  Object.entries(numbers).map(([key, number]) => ({ key, tag: tagOf(number), kind }));

const layout = (texts: Record<string, number>, jsons: Record<string, number>): Layout => {
  const all = [...fieldsOf('text', texts), ...fieldsOf('json', { icons: 7, _meta: 8, ...jsons })];
  const byTag = Array.from({ length: EXTRA_TAG }, (_, tag) => all.find((one) => one.tag === tag));
  return { fields: new Map(all.map((field) => [field.key, field])), byTag };
};

const COMMON = { name: 2, title: 3, description: 4, mimeType: 5 };

export const TOOL: Layout = layout(
  { name: 1, title: 2, description: 3 },
  { inputSchema: 4, outputSchema: 5, annotations: 6 },
);
export const RESOURCE: Layout = layout({ uri: 1, ...COMMON }, { annotations: 6 });
export const RESOURCE_TEMPLATE: Layout = layout({ uriTemplate: 1, ...COMMON }, { annotations: 6 });
export const PROMPT: Layout = layout({ name: 1, title: 2, description: 3 }, { arguments: 4 });
