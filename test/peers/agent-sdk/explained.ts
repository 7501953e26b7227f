import type { Difference } from './compare.ts';

/** Differences that stay, each with its reason; docs/guides/migrate-agent-sdk.md lists them. */
const EXPLAINED: readonly {
  readonly where: RegExp;
  readonly cases?: RegExp;
  readonly reason: string;
}[] = [
  {
    where: /^responses\.cli-0\.response\.updatedInput$/,
    cases: /^canUseTool allow bare$/,
    reason: 'the host repeats the input, which older CLIs require of an allow',
  },
  {
    where: /^responses\.cli-0/,
    cases: /^canUseTool throws$/,
    reason: 'the host denies with the reason; an error response is a denial, too',
  },
  {
    where: /capabilities\.logging$/,
    reason: 'servers of this process can send log messages',
  },
  {
    where: /inputSchema\.\$schema$|tools\.0\.execution$/,
    reason: 'members of the MCP SDK with their default values',
  },
  {
    where: /input_schema\.\$schema$/,
    reason: 'the schema of a tool does not name its dialect',
  },
  {
    where: /./,
    cases: /^executableArgs$/,
    reason: 'the host passes them to the runtime of a script only, not to a CLI that needs none',
  },
  {
    where: /^(?:requests|messages)$/,
    cases: /^an abort during the turn$/,
    reason: 'the host interrupts the turn, and the reader gets no message after the abort',
  },
  {
    where: /^(?:users|messages)$/,
    cases: /^streamInput$/,
    reason: 'the official SDK ends the input after streamInput and loses the rest of the prompt',
  },
];

/** The reason for a difference, if the guide states it. */
export const reasonFor = (name: string, { where }: Difference): string | undefined =>
  EXPLAINED.find((each) => each.where.test(where) && (each.cases?.test(name) ?? true))?.reason;
