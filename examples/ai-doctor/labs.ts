/** A measured value: its names and units, its possible range and its normal range. */
export interface Analyte {
  readonly name: string;
  readonly aliases: readonly string[];
  readonly units: readonly string[];
  /** A value outside of this range is a typing error. */
  readonly possible: readonly [number, number];
  /** A value outside of this range is reported. */
  readonly usual: readonly [number, number];
}

const analyte = (
  name: string,
  aliases: string,
  units: string,
  possible: readonly [number, number],
  usual: readonly [number, number],
): Analyte => ({
  name,
  aliases: [name, ...aliases.split('|')].map((alias) => alias.toLowerCase()).filter(Boolean),
  units: units.split('|'),
  possible,
  usual,
});

export const ANALYTES: readonly Analyte[] = [
  analyte('eGFR', 'GFR|estimated GFR', 'mL/min/1.73m2|mL/min/1.73m²|mL/min', [1, 200], [60, 200]),
  analyte('creatinine', 'serum creatinine', 'mg/dL', [0.1, 30], [0.5, 1.3]),
  analyte('potassium', 'K|K+', 'mmol/L|mEq/L', [1.2, 10], [3.5, 5.0]),
  analyte('sodium', 'Na|Na+', 'mmol/L|mEq/L', [90, 200], [135, 145]),
  analyte('HbA1c', 'A1c|haemoglobin A1c|hemoglobin A1c', '%|percent', [3, 20], [4, 6.9]),
  analyte('glucose', 'fasting glucose|blood glucose', 'mg/dL', [10, 2000], [70, 180]),
  analyte('LDL cholesterol', 'LDL|LDL-C', 'mg/dL', [5, 1000], [5, 130]),
  analyte('triglycerides', 'TG', 'mg/dL', [10, 20000], [10, 200]),
  analyte('TSH', '', 'mIU/L|mU/L|uIU/mL', [0, 500], [0.4, 4.5]),
  analyte('INR', '', '|ratio', [0.5, 25], [0.8, 3.0]),
  analyte('haemoglobin', 'hemoglobin|Hb|Hgb', 'g/dL', [2, 25], [12, 17.5]),
  analyte('ferritin', '', 'ng/mL|ug/L|µg/L', [0, 100000], [30, 400]),
  analyte('ALT', 'alanine aminotransferase', 'U/L', [1, 20000], [1, 45]),
  analyte('albuminuria', 'UACR|ACR|urine albumin-to-creatinine ratio', 'mg/g', [0, 30000], [0, 29]),
  analyte('vitamin B12', 'B12', 'pg/mL', [10, 20000], [200, 2000]),
  analyte('vitamin D', '25-OH vitamin D', 'ng/mL', [1, 300], [20, 100]),
  analyte('urate', 'uric acid', 'mg/dL', [0.5, 40], [2, 7]),
  analyte('lithium level', 'lithium', 'mmol/L|mEq/L', [0, 10], [0.4, 1.0]),
  analyte('ejection fraction', 'LVEF|EF', '%|percent', [5, 90], [50, 75]),
  analyte('PHQ-9 score', 'PHQ-9|PHQ9', '|points', [0, 27], [0, 9]),
];

export const analyteOf = (name: string): Analyte | undefined =>
  ANALYTES.find(({ aliases }) => aliases.includes(name.trim().toLowerCase()));
