import type { Screening, SuggestedAction } from '../patient-briefing.ts';
import { sentences } from '../retrieval/corpus.ts';
import type { Source } from '../sources.ts';
import { conditionsIn, type Segment, segmentsOf, verdict, type Verdict } from './conditions.ts';
import type { Facts } from './facts.ts';
import { ALL_CONDITIONS, hasWord, mentions } from './lexicon.ts';

const MAX_ACTIONS = 6;
const URGENCY: readonly SuggestedAction['priority'][] = ['urgent', 'soon', 'routine'];
const TREATING = new Set(['Management', 'Prevention', 'Acute care']);

/** The advice of the sources for the conditions and values of the patient. */
export function suggestedActions(
  facts: Facts,
  sources: readonly Source[],
): readonly SuggestedAction[] {
  const actions = sources.flatMap(({ id, section, title, text }): SuggestedAction[] => {
    // Advice for others may harm here: in pregnancy only sentences about pregnancy count.
    const fitting = facts.record.pregnant ? section === 'Pregnancy' : TREATING.has(section);
    if (!fitting) return [];
    const judged = judge(text, facts).filter(({ holds }) => holds !== 'fails');
    const met = judged.filter(({ holds }) => holds === 'holds');
    const ours =
      isAbout(facts, title) ||
      met.some(({ sentence }) => isAbout(facts, sentence)) ||
      facts.abnormal.some(({ name, direction }) => hasWord(title, `${direction} ${name}`));
    // Advice for an emergency needs a value that shows one.
    if (!ours || (section === 'Acute care' && met.length === 0)) return [];
    const chosen = (met.length > 0 ? met : judged)
      .map(({ sentence }) => sentence)
      .filter((sentence) => isMeant(facts, sentence))
      .filter((sentence) => !forbidden(facts, sentence) && !takesAlready(facts, sentence))
      .slice(0, 1);
    return chosen.map((action) => ({
      action,
      priority: section === 'Acute care' ? 'urgent' : met.length > 0 ? 'soon' : 'routine',
      citations: [id],
    }));
  });
  return actions
    .toSorted((a, b) => URGENCY.indexOf(a.priority) - URGENCY.indexOf(b.priority))
    .slice(0, MAX_ACTIONS);
}

/** Screenings and vaccines for a person of this age, sex and history, without the disease. */
export function screenings(facts: Facts, sources: readonly Source[]): readonly Screening[] {
  if (facts.record.age < 18) return [];
  return sources.flatMap(({ id, section, title, text }): Screening[] => {
    if (section !== 'Screening' && section !== 'Vaccines') return [];
    const sought = (/^Screening for (.+)$/.exec(title) ?? /^(.+) screening$/.exec(title))?.[1];
    if (facts.conditions.some(({ terms }) => terms.includes(sought?.toLowerCase() ?? '')))
      return [];
    const reason = sentences(text).find((sentence) => {
      const segments = segmentsOf(sentence, conditionsIn(sentence).found);
      return (
        !/^(?:Do not|Stop)\b/.test(sentence) &&
        isForSex(facts, `${title}. ${sentence}`) &&
        segments.some((segment) => isForPerson(facts, segment, `${title}. ${segment.text}`))
      );
    });
    return reason === undefined ? [] : [{ screening: title, reason, citations: [id] }];
  });
}

function isForSex({ record: { sex } }: Facts, text: string): boolean {
  const women = /\bwomen\b|\bmammo|\bcervical\b/i.test(text);
  const men = /\bmen\b/i.test(text);
  return sex === 'female' ? women || !men : men || !women;
}

/** Every condition must hold; if diseases are named, the patient must have one of them. */
function isForPerson(
  { record, conditions, valueOf }: Facts,
  segment: Segment,
  text: string,
): boolean {
  const met = segment.conditions.every(({ of, holds }) => {
    const value = valueOf(of);
    return value !== undefined && holds(value);
  });
  if (!met) return false;
  if (/\bsmoked\b/i.test(text) && (record.smoking?.status ?? 'never') === 'never') return false;
  if (/\boverweight\b/i.test(text) && (valueOf('body mass index') ?? 0) < 25) return false;
  const diseases = ALL_CONDITIONS.filter((name) => hasWord(text, name));
  if (diseases.length > 0)
    return conditions.some(({ terms }) =>
      diseases.some((name) => terms.includes(name.toLowerCase())),
    );
  return segment.conditions.length > 0 || /\b(?:all adults|everyone|every adult)\b/i.test(text);
}

const isAbout = ({ conditions }: Facts, text: string): boolean =>
  conditions.some(({ terms }) => terms.some((term) => mentions(text, [term])));

/** Each sentence with the result of its conditions for the patient. */
function judge(
  text: string,
  { valueOf }: Facts,
): readonly { readonly sentence: string; readonly holds: Verdict }[] {
  let about: string | undefined;
  return sentences(text).map((sentence) => {
    const read = conditionsIn(sentence, about);
    about = read.about;
    const verdicts = segmentsOf(sentence, read.found).map((segment) => verdict(segment, valueOf));
    const holds = verdicts.includes('holds')
      ? 'holds'
      : verdicts.includes('fails') || read.found.length > 0
        ? 'fails'
        : 'open';
    return { sentence, holds };
  });
}

/** "In A with B or C, …": whether the group that a sentence names includes this patient. */
function isMeant(facts: Facts, sentence: string): boolean {
  if (!sentence.startsWith('In ')) return true;
  const comma = sentence.lastIndexOf(',');
  const opening = comma > 0 ? sentence.slice(0, comma) : sentence.split(' ').slice(0, 5).join(' ');
  return opening.split(' with ').every((part) => {
    const named = ALL_CONDITIONS.some((name) => hasWord(part, name));
    return !named || isAbout(facts, part) || facts.abnormal.some(({ name }) => hasWord(part, name));
  });
}

/** Whether a sentence advises a drug that an allergy forbids. */
const forbidden = ({ allergies }: Facts, sentence: string): boolean =>
  allergies.some(({ terms }) => mentions(sentence, terms));

/** Whether a sentence advises to start a drug that the patient already takes. */
const takesAlready = ({ drugs }: Facts, sentence: string): boolean =>
  /^(?:Start|Begin|Give|Offer|Add)\b/.test(sentence) &&
  drugs.some(({ terms }) => mentions(sentence, terms));
