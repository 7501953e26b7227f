/** A member of a frame that should be a text, as one. */
export const textOf = (value: unknown, otherwise = ''): string =>
  typeof value === 'string' ? value : otherwise;
