import type { PatientBriefing } from './patient-briefing.ts';

const WIDTH = 96;

/** A briefing for a terminal. */
export function layOut(briefing: PatientBriefing): string {
  const { summary, findings, medicationSafety, suggestedActions, screenings } = briefing;
  const numbers = new Map(briefing.citations.map(({ id }, at) => [id, at + 1]));
  const cite = (ids: readonly string[]): string =>
    ids.map((id) => `[${numbers.get(id) ?? '?'}]`).join('');
  const section = (title: string, lines: readonly string[]): string =>
    lines.length === 0 ? '' : `${title.toUpperCase()}\n${lines.map(bullet).join('\n')}`;
  return [
    `SUMMARY\n${wrap(summary, '')}`,
    section(
      'Medication safety',
      medicationSafety.map(
        ({ severity, kind, medications, concern, citations }) =>
          `${severity === 'high' ? '!! ' : ''}${medications.join(' + ')} (${kind}): ${concern} ${cite(citations)}`,
      ),
    ),
    section(
      'Findings',
      findings.map(({ finding, citations }) => `${finding} ${cite(citations)}`),
    ),
    section(
      'Suggested actions',
      suggestedActions.map(
        ({ action, priority, citations }) =>
          `${priority === 'routine' ? '' : `${priority}: `}${action} ${cite(citations)}`,
      ),
    ),
    section(
      'Screenings',
      screenings.map(
        ({ screening, reason, citations }) => `${screening}: ${reason} ${cite(citations)}`,
      ),
    ),
    `SOURCES\n${briefing.citations.map(({ id, title }, at) => `  [${at + 1}] ${title} (${id})`).join('\n')}`,
    briefing.disclaimer,
  ]
    .filter(Boolean)
    .join('\n\n');
}

const bullet = (text: string): string => `  - ${wrap(text.trim(), '    ').trimStart()}`;

function wrap(text: string, indent: string): string {
  const lines = [''];
  for (const word of text.split(/\s+/)) {
    const last = lines.length - 1;
    const line = lines[last] ?? '';
    if (line !== '' && indent.length + line.length + word.length + 1 > WIDTH) lines.push(word);
    else lines[last] = line === '' ? word : `${line} ${word}`;
  }
  return lines.map((line) => indent + line).join('\n');
}
