/** The parts of the product that are simulated. The seeds take turns between them. */
export const PART_NAMES = ['tasks', 'host', 'a2a', 'mcp'] as const;

export type PartName = (typeof PART_NAMES)[number];
