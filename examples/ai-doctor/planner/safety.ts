import type { MedicationConcern } from '../patient-briefing.ts';
import { sentences } from '../retrieval/corpus.ts';
import type { Source } from '../sources.ts';
import { conditionsIn, type Segment, segmentsOf, verdict, withoutAsides } from './conditions.ts';
import type { Drug, Facts } from './facts.ts';
import { mentions, mentionsDrug } from './lexicon.ts';

/** Words of a warning in a guideline. */
const CAUTION =
  /\b(?:avoid|stop(?:ped)?|never|not|must|harm|contraindicated|forbids?|reduce|halve|limit|lower|lengthen|danger|raises?|increases?|risk|cause[sd]?|worsen|oppose|start \w+ at|depends|check|recheck|replace|review|doubles?|hold|unsafe|adds?|weaken|bind|fail|blocks?|regular)\b/i;
const GRAVE =
  /\b(?:contraindicated|must not|never|do not|avoid|forbids?|fatal|harm|emergency|collapse|stop)\b/i;
/** Phrases that offer an alternative, which is not a warning. */
const REMEDY =
  /\b(?:add(?:ing)?|choose|use|offer|prefer|changing to|switch to|or use|alternatives?|safer|instead|option|is an? )\b[^.;,]*/gi;

/** The concerns of the sources about the drugs of this patient, most severe first. */
export function medicationConcerns(
  facts: Facts,
  sources: readonly Source[],
): readonly MedicationConcern[] {
  const concerns = sources.flatMap((source) => {
    switch (source.section) {
      case 'Interactions':
        return interaction(facts, source);
      case 'Allergy':
        return allergy(facts, source);
      case 'Renal dosing':
        return warnings(facts, source, 'renal-dosing');
      case 'Monitoring':
        return warnings(facts, source, 'monitoring');
      case 'Older adults':
        return facts.record.age >= 65 ? warnings(facts, source, 'older-adult') : [];
      case 'Pregnancy':
        return facts.record.pregnant ? warnings(facts, source, 'pregnancy') : [];
      case 'Medication safety':
        return warnings(facts, source, 'precaution');
      default:
        return [];
    }
  });
  return concerns.toSorted((a, b) => rank(a) - rank(b));
}

const rank = ({ severity }: MedicationConcern): number => (severity === 'high' ? 0 : 1);

const severityOf = (text: string): MedicationConcern['severity'] =>
  GRAVE.test(text) ? 'high' : 'moderate';

const saidOf = (drugs: readonly Drug[], text: string): readonly Drug[] =>
  drugs.filter(({ terms }) => mentions(text, terms));

/**
 * By the title: `X with Y or Z` needs a drug of each side, `X with Y and Z` all three; `X …` needs
 * X and another in one sentence; a title without a drug needs two in one sentence.
 */
function interaction({ drugs }: Facts, { id, title, text }: Source): readonly MedicationConcern[] {
  const [left = '', right] = title.replace(/^CDC 2022: /, '').split(/ with /);
  const parts = sentences(text);
  const warned = parts.map((part) => withoutAsides(part).replace(REMEDY, ''));
  const involved = new Set<Drug>();
  if (right !== undefined) {
    const firsts = saidOf(drugs, left);
    const groups = right
      .split(/ and /)
      .map((group) => saidOf(drugs, group).filter((drug) => !firsts.includes(drug)));
    if (firsts.length > 0 && groups.every((group) => group.length > 0))
      for (const drug of [...firsts, ...groups.flat()]) involved.add(drug);
  } else {
    const named = saidOf(drugs, title);
    const isAboutOne = mentionsDrug(title);
    for (const part of warned) {
      const said = saidOf(drugs, part);
      const all = new Set(isAboutOne ? [...named, ...said] : said);
      if (all.size > 1 && (named.length > 0 || !isAboutOne))
        for (const drug of all) involved.add(drug);
    }
  }
  if (involved.size < 2) return [];
  const meds = [...involved];
  const telling = parts.filter(
    (part, at) => at === 0 || saidOf(meds, warned[at] ?? '').length > 0 || GRAVE.test(part),
  );
  const advice = telling.slice(0, 3).join(' ');
  return [
    {
      kind: 'interaction',
      medications: meds.map(({ name }) => name),
      concern: advice,
      severity: severityOf(advice),
      citations: [id],
    },
  ];
}

function allergy(
  { drugs, allergies }: Facts,
  { id, title, text }: Source,
): readonly MedicationConcern[] {
  const about = allergies.filter(({ terms }) => mentions(title, terms) || mentions(text, terms));
  return about.flatMap(({ substance, terms }) => {
    const clashing = drugs.filter((drug) => drug.terms.some((term) => terms.includes(term)));
    if (clashing.length === 0 || !saidOf(clashing, `${title}. ${text}`).length) return [];
    return [
      {
        kind: 'allergy' as const,
        medications: clashing.map(({ name }) => name),
        concern: `Allergy to ${substance} is on record. ${sentences(text)[0] ?? text}`,
        severity: 'high' as const,
        citations: [id],
      },
    ];
  });
}

/** Warnings whose condition this patient meets: a value, an age, a diagnosis, a pregnancy. */
function warnings(
  facts: Facts,
  { id, title, text }: Source,
  kind: MedicationConcern['kind'],
): readonly MedicationConcern[] {
  const { drugs } = facts;
  const inTitle = saidOf(drugs, title);
  const involved = new Set<Drug>();
  const told: string[] = [];
  let about: string | undefined;
  for (const sentence of sentences(text)) {
    const read = conditionsIn(sentence, about);
    about = read.about;
    let carried = inTitle;
    for (const segment of segmentsOf(sentence, read.found)) {
      const named = saidOf(drugs, withoutAsides(segment.text).replace(REMEDY, ''));
      const meant = named.length > 0 ? named : mentionsDrug(segment.text) ? [] : carried;
      carried = meant;
      if (meant.length === 0 || !CAUTION.test(sentence)) continue;
      if (!concernsPatient(facts, segment, sentence, kind)) continue;
      for (const drug of meant) involved.add(drug);
      if (told.at(-1) !== sentence) told.push(sentence);
    }
  }
  if (involved.size === 0) return [];
  const first = told[0] ?? '';
  // A sentence with "it" needs the title, which names the subject.
  const concern = `${saidOf(drugs, first).length > 0 ? '' : `${title}: `}${told.join(' ')}`;
  return [
    {
      kind,
      medications: Array.from(involved, ({ name }) => name),
      concern,
      severity: severityOf(concern),
      citations: [id],
    },
  ];
}

function concernsPatient(
  { record, conditions, valueOf }: Facts,
  segment: Segment,
  sentence: string,
  kind: MedicationConcern['kind'],
): boolean {
  const judged = verdict(segment, valueOf);
  if (judged === 'holds') return true;
  if (judged === 'fails' || segment.conditions.length > 0) return false;
  if (kind === 'pregnancy') return record.pregnant === true;
  if (kind === 'renal-dosing' || kind === 'monitoring') return false;
  return conditions.some(({ terms }) => terms.some((term) => mentions(sentence, [term])));
}
